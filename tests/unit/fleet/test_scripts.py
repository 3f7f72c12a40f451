from importlib.resources import files

from mst.fleet.ledger_states import TRANSITIONS
from mst.fleet.scripts import source_of


def test_every_move_has_a_script_with_the_whole_table():
    for name in TRANSITIONS:
        source = source_of(name)
        for event in TRANSITIONS:
            assert f"{event} = {{" in source
        assert source.rstrip().endswith("reply('yes')") or "return reply(" in source


def test_every_script_is_used():
    names = {path.name.removesuffix(".lua") for path in (files("mst.fleet") / "lua").iterdir()}
    others = {"prelude", "write_entries", "open_dispatch", "close_dispatch", "queue_idle"}
    others |= {"lock", "unlock", "present", "live_workers", "limit", "spend_reserve", "spend_settle", "judge_failed"}
    assert names == set(TRANSITIONS) | others
