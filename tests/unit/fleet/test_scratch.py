import pytest

from mst.fleet.scratch import LOCK, PREFIX, own_scratch


@pytest.fixture(autouse=True)
def base(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def left(base, name="gone"):
    folder = base / f"{PREFIX}{name}"
    (folder / "shard-3-x" / "results").mkdir(parents=True)
    (folder / LOCK).touch(0o600)
    return folder


def test_it_is_private_and_goes_with_the_block(base):
    with own_scratch() as scratch:
        assert scratch.parent == base
        assert scratch.stat().st_mode & 0o777 == 0o700
        (scratch / "file").touch()
    assert list(base.iterdir()) == []


def test_what_killed_workers_left_goes_when_the_next_one_starts(base):
    folders = [left(base, "one"), left(base, "two")]
    with own_scratch():
        assert not any(folder.exists() for folder in folders)


def test_that_of_a_worker_that_lives_stays():
    with own_scratch() as scratch, own_scratch() as other:
        assert scratch.exists()
        assert other.exists()


def test_what_is_no_worker_s_stays(base):
    other, link = base / f"{PREFIX}being-made", base / f"{PREFIX}link"
    other.mkdir()
    target = left(base / "elsewhere")
    link.symlink_to(target)
    (base / f"{PREFIX}file").touch()
    with own_scratch():
        assert other.exists()
        assert target.exists()
        assert (base / f"{PREFIX}file").exists()
