"""How a coordinator ends: with what is finished at its deadline, and closing nothing while its store is away."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from mst.errors import StoreDenied, StoreUnavailable
from mst.fleet.closing import close_dispatch, is_closed
from mst.fleet.follow import Follower
from mst.fleet.ledger_records import Head
from mst.fleet.ledger_states import Entry, State
from mst.model.fleet import ShardLimits
from mst.model.keys import TrialKey
from mst.shards.contract import Cancel, ShardSpec
from mst.store.layout import RunKeys
from mst.store.memory import MemoryStore

RUN = "20260101T000000Z-abcdef.g2"
KEYS = RunKeys("e", RUN).dispatch("d1")


class Store:
    """A store that is away for as many calls as it is told to be."""

    def __init__(self):
        self._inner = MemoryStore("follow")
        self.away, self.error, self.asked = 0, StoreUnavailable("memory:follow: no answer"), 0

    def __getattr__(self, name):
        if self.away:
            self.away -= 1
            self.asked += 1
            raise self.error
        return getattr(self._inner, name)


class Desk:
    """A coordinator of one shard of one unit that a worker holds."""

    def __init__(self, folder, *, within_s):
        self.notes, self.cancelled, self.cancel, self.store = [], [], Cancel(), Store()
        self.spec = ShardSpec(
            work="grade",
            run_id=RUN,
            eval_name="e",
            dispatch="d1",
            index=0,
            count=1,
            bundle=folder,
            digest="d" * 64,
            planned=(TrialKey(variant="a", case_id="c1", trial=0),),
            results=folder / "results",
        )
        self.head = Head(
            run_id=RUN,
            dispatch="d1",
            work="grade",
            eval_name="e",
            queue="q",
            deadline=datetime.now(UTC) + timedelta(seconds=within_s),
            limits=ShardLimits(),
            dispatch_uri="memory:follow/d1",
        )
        self.entry = Entry(self.head.terms, 1, State.RUNNING, n=1)
        self.looks, self.when_looked = 0, lambda _looks: None

    def entries(self, _head):
        self.looks += 1
        self.when_looked(self.looks)
        return [(0, self.entry)]

    def follow(self):
        nothing = lambda *_given, **_options: None  # noqa: E731 - told much that this is not about
        return Follower(
            store=self.store,
            book=SimpleNamespace(
                events=lambda *_given, **_options: [],
                head=lambda _scope: self.head,
                entries=self.entries,
                cancel=lambda _head, why: self.cancelled.append(why),
                close_dispatch=nothing,
            ),
            grants=SimpleNamespace(drop=nothing),
            keys=KEYS,
            head=self.head,
            target=None,
            shards=[self.spec],
            events=SimpleNamespace(note=self.notes.append, state=nothing, count=nothing),
            cancel=self.cancel,
            write_again=nothing,
        ).follow()


@pytest.fixture
def desk(tmp_path, monkeypatch):
    (tmp_path / "results" / "units").mkdir(parents=True)
    monkeypatch.setattr("mst.fleet.follow.WAIT_S", 0.001)
    monkeypatch.setattr("mst.fleet.follow.LOOK_EVERY_S", 0.0)
    return lambda *, within_s=3600.0: Desk(tmp_path, within_s=within_s)


def test_at_the_deadline_a_dispatch_is_closed_with_what_is_finished(desk):
    late = desk(within_s=0.0)
    [outcome] = late.follow()
    assert (outcome.ok, outcome.reason) == (False, "lost")
    assert outcome.detail.startswith("the deadline ")
    assert is_closed(late.store, KEYS), "no worker may take it any more, so there is nothing to attach to"


def test_a_store_that_is_away_for_a_while_is_waited_for_and_that_is_said_once(desk):
    waiting = desk()
    waiting.store.away = 3
    waiting.when_looked = lambda _looks: close_dispatch(waiting.store, KEYS, [waiting.spec], "done")
    waiting.follow()
    assert waiting.store.asked == 3
    said, again = waiting.notes
    assert said.startswith("memory:follow: no answer; waiting for it, at most until the deadline ")
    assert again == "the result store answers again"


def test_it_is_waited_for_also_when_all_that_is_left_is_to_bring_the_results(desk):
    waiting = desk()

    def over(_looks):
        waiting.entry = Entry(waiting.head.terms, 1, State.FAILED, n=1, reason="why")
        waiting.store.away = 2

    waiting.when_looked = over
    [outcome] = waiting.follow()
    assert (outcome.reason, outcome.detail) == ("refused", "why")
    assert waiting.store.asked == 2
    assert waiting.notes[-1] == "the result store answers again"


@pytest.mark.parametrize("how", ["deadline", "cancel"])
def test_who_may_not_wait_closes_nothing_and_says_how_to_go_on(desk, how):
    ending = desk(within_s=0.0 if how == "deadline" else 3600.0)
    if how == "cancel":
        ending.cancel.set("you said so")
    ending.store.away = 10**9
    with pytest.raises(StoreUnavailable, match=f"no answer; what is finished is kept: .* mst attach {RUN}$") as ended:
        ending.follow()
    assert ended.value.exit_code == 4
    ending.store.away = 0
    assert not is_closed(ending.store, KEYS)


def test_a_store_that_refuses_is_not_waited_for(desk):
    refused = desk()
    refused.store.away, refused.store.error = 1, StoreDenied("no such key")
    with pytest.raises(StoreDenied, match="no such key"):
        refused.follow()
    assert refused.notes == []
