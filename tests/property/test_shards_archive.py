"""Archives of random folders come back as they were; random damage is found or does no harm."""

import contextlib
import tarfile
import tempfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mst.errors import CorruptFile
from mst.shards.archive import Caps, pack, unpack

names = st.text(st.characters(exclude_characters="/\\\0", exclude_categories=["Cs"]), min_size=1, max_size=60).filter(
    lambda name: name not in (".", "..") and len(name.encode()) <= 200
)
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
folders = st.dictionaries(paths, st.tuples(st.binary(max_size=3000), st.booleans()), max_size=12)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def written(root, folder):
    """Write what can be written: a name may be a file or a folder, not both."""
    for path, (data, executable) in folder.items():
        target = root / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError:
            continue
        target.chmod(0o755 if executable else 0o644)
    return contents(root)


def contents(root):
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in root.rglob("*")
        if path.is_file()
    }


@quick
@given(folders)
def test_a_folder_comes_back_as_it_was_and_packs_to_the_same_bytes(folder):
    with tempfile.TemporaryDirectory() as home:
        base = Path(home)
        (base / "in").mkdir()
        before = written(base / "in", folder)
        pack(base / "in", base / "a.zst")
        unpack(base / "a.zst", base / "out")
        assert contents(base / "out") == before
        pack(base / "out", base / "b.zst")
        assert (base / "a.zst").read_bytes() == (base / "b.zst").read_bytes()


def sample(base):
    (base / "in" / "units").mkdir(parents=True)
    for number in range(4):
        (base / "in" / "units" / f"{number}.json").write_bytes(bytes(range(256)) * (number + 1))
    pack(base / "in", base / "a.zst")
    return contents(base / "in"), (base / "a.zst").read_bytes()


@quick
@given(st.data())
def test_an_archive_that_is_cut_short_anywhere_is_found(data):
    with tempfile.TemporaryDirectory() as home:
        base = Path(home)
        _, whole = sample(base)
        length = data.draw(st.integers(0, len(whole) - 1))
        (base / "a.zst").write_bytes(whole[:length])
        with pytest.raises(CorruptFile, match="truncated"):
            unpack(base / "a.zst", base / "out")


@quick
@given(st.data())
def test_damaged_bytes_are_found_or_change_nothing(data):
    with tempfile.TemporaryDirectory() as home:
        base = Path(home)
        before, whole = sample(base)
        damaged = bytearray(whole)
        for _ in range(data.draw(st.integers(1, 4))):
            damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        damaged += data.draw(st.binary(max_size=3))
        (base / "a.zst").write_bytes(damaged)
        try:
            unpack(base / "a.zst", base / "out")
        except CorruptFile:
            return
        assert contents(base / "out") == before


@quick
@given(st.data())
def test_no_tar_leaves_its_folder_or_fails_otherwise(data):
    entry = tarfile.TarInfo(data.draw(st.text(st.sampled_from("ab/.\\\0 é"), min_size=1, max_size=12)))
    entry.type = data.draw(st.sampled_from([bytes([kind]) for kind in b"01234567gxLKSV"]))
    entry.linkname = data.draw(st.sampled_from(["", "../out", "/etc/passwd"]))
    entry.size = data.draw(st.sampled_from([0, 3, 600, 2**40]))
    raw = bytearray(entry.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape") + b"abc" * 400 + bytes(1024))
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, 511))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as home:
        base = Path(home)
        (base / "a.zst").write_bytes(zstandard.ZstdCompressor().compress(bytes(raw)))
        with contextlib.suppress(CorruptFile):
            unpack(base / "a.zst", base / "out", Caps(total_bytes=10_000, file_bytes=5_000, files=5))
        assert {path.name for path in base.iterdir()} <= {"a.zst", "out"}
        assert not any(path.is_symlink() for path in base.rglob("*"))
