"""What a program was given, remembered outside its workspace."""

from __future__ import annotations

from mst.collect.baseline import baseline_of_files, baseline_of_folder, walk


def test_files_alone_are_remembered_without_reading_them(bench):
    refs = bench.refs({"a": "1", "b/c": "2"}, executable=["a"])
    found = baseline_of_files(refs, bench.files)
    assert sorted(found) == ["a", "b/c"]
    assert found["a"].executable
    assert found["b/c"].source.read_text() == "2"


def test_after_set_up_only_new_bytes_are_kept(bench, tmp_path):
    refs = bench.refs({"a": "1", "b": "2"})
    workspace = tmp_path / "w"
    (workspace / ".git").mkdir(parents=True)
    (workspace / ".git/HEAD").write_text("x")
    (workspace / "a").write_text("1")
    (workspace / "b").write_text("changed")
    (workspace / "l").symlink_to("a")
    found = baseline_of_folder(workspace, refs, bench.files, tmp_path / "kept")
    assert sorted(found) == ["a", "b", "l"]
    assert [path.read_text() for path in (tmp_path / "kept").iterdir()] == ["changed"]
    (workspace / "b").write_text("changed by the program")
    assert found["b"].source.read_text() == "changed"
    assert found["l"].link == "a"


def test_a_walk_is_sorted_and_follows_no_link(tmp_path):
    (tmp_path / "w/b").mkdir(parents=True)
    (tmp_path / "w/b/z").touch()
    (tmp_path / "w/c").touch()
    (tmp_path / "w/a").symlink_to(tmp_path)
    assert [path for path, _ in walk(tmp_path / "w")] == ["a", "c", "b/z"]
