"""A bundle's archive: reproducible, and refused when it is more or other than a bundle."""

import io
import os
import tarfile

import pytest
import zstandard

from mst.errors import CorruptFile, InfrastructureError
from mst.shards.archive import Caps, pack, unpack


def archive(path, *entries, after=b""):
    """Write a tar.zst of entries (name, content, changes) that need not be sound."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, changes in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            for field, value in changes.items():
                setattr(entry, field, value)
            tar.addfile(entry, io.BytesIO(content))
    path.write_bytes(zstandard.ZstdCompressor().compress(raw.getvalue()) + after)
    return path


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/abs", "a\\b", "..", "a/.."])
def test_a_name_that_would_leave_the_folder_is_refused(tmp_path, name):
    with pytest.raises(CorruptFile, match="leave the folder"):
        unpack(archive(tmp_path / "a.zst", (name, b"x", {})), tmp_path / "in" / "out")
    assert not (tmp_path / "in" / "abs").exists()
    assert list((tmp_path / "in").iterdir()) == [tmp_path / "in" / "out"]
    assert list((tmp_path / "in" / "out").rglob("*")) == []


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
        tarfile.FIFOTYPE,
        tarfile.DIRTYPE,
        tarfile.CONTTYPE,
        tarfile.GNUTYPE_SPARSE,
        b"?",
    ],
)
def test_what_is_no_plain_file_is_refused(tmp_path, kind):
    made = archive(tmp_path / "a.zst", ("first", b"1", {}), ("thing", b"", {"type": kind, "linkname": "/etc/passwd"}))
    with pytest.raises(CorruptFile, match="plain file"):
        unpack(made, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["first"]


def test_a_name_in_a_huge_header_is_refused_before_it_is_read(tmp_path):
    long = archive(tmp_path / "a.zst", ("x", b"", {"pax_headers": {"path": "y" * 1_000_000}}))
    with pytest.raises(CorruptFile, match="longer than any path"):
        unpack(long, tmp_path / "out")


@pytest.mark.parametrize(
    ("caps", "entries"),
    [
        (Caps(files=2), [(f"f{n}", b"", {}) for n in range(3)]),
        (Caps(file_bytes=10), [("big", b"x" * 11, {})]),
        (Caps(total_bytes=15), [("one", b"x" * 10, {}), ("two", b"x" * 10, {})]),
    ],
)
def test_more_than_the_caps_is_refused(tmp_path, caps, entries):
    with pytest.raises(CorruptFile, match="larger than this worker accepts"):
        unpack(archive(tmp_path / "a.zst", *entries), tmp_path / "out", caps)


def test_a_bomb_is_refused_by_what_it_would_unpack_to(tmp_path):
    bomb = archive(tmp_path / "a.zst", ("zeros", bytes(64 * 1024**2), {}))
    assert bomb.stat().st_size < 10_000
    with pytest.raises(CorruptFile, match="larger than this worker accepts"):
        unpack(bomb, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_bomb_that_hides_its_size_is_refused(tmp_path):
    # no entry says how much there is: it is all behind the end of the archive
    raw = bytes(1024) + bytes(64 * 1024**2)
    (tmp_path / "a.zst").write_bytes(zstandard.ZstdCompressor().compress(raw))
    with pytest.raises(CorruptFile, match="larger than this worker accepts"):
        unpack(tmp_path / "a.zst", tmp_path / "out", Caps(files=1))


def test_a_window_over_the_cap_is_refused(tmp_path):
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    raw = os.urandom(1024) * 200_000
    (tmp_path / "a.zst").write_bytes(zstandard.ZstdCompressor(compression_params=parameters).compress(raw))
    with pytest.raises(CorruptFile):
        unpack(tmp_path / "a.zst", tmp_path / "out", Caps(window_bytes=1024**2))


@pytest.mark.parametrize("content", [b"", b"not an archive", zstandard.ZstdCompressor().compress(b"not a tar" * 200)])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "a.zst").write_bytes(content)
    with pytest.raises(CorruptFile, match="truncated or not a bundle"):
        unpack(tmp_path / "a.zst", tmp_path / "out")


def test_what_follows_the_archive_is_refused(tmp_path):
    with pytest.raises(CorruptFile, match="follows its end"):
        unpack(archive(tmp_path / "a.zst", ("a", b"1", {}), after=b"more"), tmp_path / "out")


def test_one_name_twice_is_refused(tmp_path):
    with pytest.raises(CorruptFile):
        unpack(archive(tmp_path / "a.zst", ("a", b"1", {}), ("a", b"2", {})), tmp_path / "out")


def test_a_full_disk_is_not_called_a_corrupt_bundle(tmp_path, monkeypatch):
    made = archive(tmp_path / "a.zst", ("a", b"1", {}))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mst.shards.archive._extract", full)
    with pytest.raises(InfrastructureError, match="No space left") as found:
        unpack(made, tmp_path / "out")
    assert not isinstance(found.value, CorruptFile)


def test_links_are_not_packed_and_times_do_not_matter(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("a")
    (tmp_path / "in" / "link").symlink_to("/etc/passwd")
    pack(tmp_path / "in", tmp_path / "a.zst")
    os.utime(tmp_path / "in" / "a", (1, 1))
    pack(tmp_path / "in", tmp_path / "b.zst")
    assert (tmp_path / "a.zst").read_bytes() == (tmp_path / "b.zst").read_bytes()
    unpack(tmp_path / "a.zst", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]
