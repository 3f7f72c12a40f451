"""What files take of a disk."""

import os
import threading

from mst.process.space import used_bytes

MIB = 1024**2


def test_all_files_below_a_folder_are_added_up_and_links_count_once(tmp_path):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "one").write_bytes(b"x" * MIB)
    empty = used_bytes([tmp_path], 10**12) - MIB
    assert 0 <= empty < MIB
    os.link(deep / "one", tmp_path / "again")
    (tmp_path / "pointer").symlink_to(deep / "one")
    assert used_bytes([tmp_path], 10**12) < 2 * MIB


def test_a_file_with_holes_counts_what_it_takes_of_the_disk(tmp_path):
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(10 * MIB)
    assert used_bytes([tmp_path], 10**12) < MIB


def test_counting_ends_once_there_is_too_much(tmp_path):
    for number in range(50):
        (tmp_path / str(number)).write_bytes(b"x" * MIB)
    assert used_bytes([tmp_path], 3 * MIB) <= 5 * MIB


def test_a_folder_that_is_not_there_is_empty(tmp_path):
    assert used_bytes([tmp_path / "none"], 1) == 0


def test_folders_are_added_up_and_a_file_of_both_counts_once(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "own").write_bytes(b"x" * MIB)
    (two / "own").write_bytes(b"x" * MIB)
    os.link(one / "own", two / "again")
    assert 2 * MIB <= used_bytes([one, two], 10**12) < 3 * MIB


def test_whoever_stops_it_need_not_wait_for_the_end(tmp_path):
    (tmp_path / "large").write_bytes(b"x" * MIB)
    stop = threading.Event()
    stop.set()
    assert used_bytes([tmp_path], 10**12, stop) == 0
