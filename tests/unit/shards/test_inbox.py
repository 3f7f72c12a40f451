"""Lines of a shard worker between the thread that reads them and the one that handles them."""

import threading

from mst.shards.inbox import INBOX_LINES, Inbox


def test_everything_that_is_there_is_taken_at_once_and_in_order():
    inbox = Inbox()
    for line in (b"a", b"b", None):
        assert inbox.put(line)
    assert inbox.take(10) == [b"a", b"b", None]
    assert inbox.take(0) == []


def test_who_has_no_room_goes_on_once_lines_are_taken():
    inbox = Inbox()
    lines = [b"%d" % number for number in range(3 * INBOX_LINES)]
    reader = threading.Thread(target=lambda: [inbox.put(line) for line in lines])
    reader.start()
    taken: list[object] = []
    while len(taken) < len(lines):
        found = inbox.take(60)
        assert 0 < len(found) <= INBOX_LINES
        taken += found
    reader.join(60)
    assert taken == lines


def test_closing_lets_who_waits_for_room_go():
    inbox = Inbox()
    refused = threading.Event()

    def fill():
        while inbox.put(b"line"):
            pass
        refused.set()

    threading.Thread(target=fill, daemon=True).start()
    inbox.close()
    assert refused.wait(60)
    assert inbox.take(0) == []
