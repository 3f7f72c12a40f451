"""Workers that lie, loop, fall silent, die or talk nonsense: each is an outcome with its own reason."""

import json
import threading

import psutil
import pytest

from mst import __version__
from mst.model.keys import TrialKey
from mst.model.shard import LINE_MAX_BYTES, SHARD_FORMAT
from mst.shards.attempts import run_attempts
from mst.shards.contract import Cancel, ShardSpec
from mst.shards.faults import LocalFaults
from mst.shards.limiter import LocalLimiter
from mst.shards.process_channel import ChildProcess, ProcessChannel
from mst.shards.spend import LocalSpend
from mst.shards.supervisor import Handlers, supervise
from mst.shards.turns import Turns
from mst.store.layout import RunKeys
from mst.store.memory import MemoryStore
from mst.store.sink import UnitFiles, UnitSink
from mst.testing.channel import write_worker
from mst.testing.commandline import until

HELLO = f'say(type="hello", protocol={SHARD_FORMAT!r}, mst={__version__!r}, python="3", machine="m")\n'
SHARD = RunKeys("e", "20260101T000000Z-abcdef").dispatch("d1").shard(0)
KEY = TrialKey(variant="a/b", case_id="c", trial=1)
TWIN = TrialKey(variant="a", case_id="b/c", trial=1)
UNIT = """
def unit(name="one", key=None):
    (results / "units").mkdir(exist_ok=True)
    (results / "units" / f"{name}.json").write_text("{}")
    say(type="graded", key=key or KEY, status="graded", path=f"units/{name}.json", passed=True)
def started(key=None):
    say(type="started", key=key or KEY)
"""
PRELUDE = f"KEY = {json.dumps(KEY.to_dict())}\nTWIN = {json.dumps(TWIN.to_dict())}\n{UNIT}{HELLO}"


class Place:
    """A shard to supervise, with whatever worker a test writes."""

    def __init__(self, home):
        self.home = home
        (home / "bundle").mkdir()
        self.results = home / "results"
        self.results.mkdir()
        self.told = []
        self.spec = ShardSpec(
            work="grade",
            run_id="20260101T000000Z-abcdef",
            eval_name="e",
            dispatch="d1",
            index=0,
            count=1,
            bundle=home / "bundle",
            digest="digest",
            planned=[KEY, TWIN],
            results=self.results,
            secrets=["TOKEN"],
        )

    def supervise(
        self, script, *, cancel=None, silence_s=20.0, started=lambda _key: None, values=None, **handlers_more
    ):
        channel = ProcessChannel(self.home / "worker", environment=write_worker(self.home, script))
        own = {
            "unit": lambda done, paths: self.told.append((done, paths)),
            "tokens": lambda names: {name: (values or {}).get(name, "") for name in names},
            "started": started,
        }
        handlers = Handlers(**(own | handlers_more))
        try:
            return supervise(self.spec, channel, handlers, cancel or Cancel(), silence_s=silence_s)
        finally:
            channel.close()


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_a_sound_worker_is_ok_and_its_file_is_back_before_it_is_told_of(place):
    outcome = place.supervise(PRELUDE + "started(); unit(); say(type='done', graded=1)")
    assert outcome.ok
    assert outcome.reason is None
    assert (outcome.finished, outcome.counts, outcome.in_flight) == (1, {"graded": 1}, ())
    [(done, paths)] = place.told
    assert done.key == KEY
    assert paths == [place.results / "units" / "one.json"]
    assert paths[0].read_text() == "{}"


def test_a_worker_whose_machine_says_that_its_memory_was_used_up_is_told_so(place, monkeypatch):
    monkeypatch.setattr(ChildProcess, "ran_out_of_memory", lambda _self: True)
    outcome = place.supervise(PRELUDE + "started(); os.kill(os.getpid(), signal.SIGKILL)")
    assert (outcome.reason, outcome.detail) == ("out_of_memory", "the worker used more memory than it may (code -9)")
    monkeypatch.undo()
    again = place.supervise(PRELUDE + "started(); os.kill(os.getpid(), signal.SIGKILL)")
    assert (again.reason, again.detail) == ("exited", "the worker exited early (code -9)")


def test_a_worker_is_told_once_to_hold_and_once_to_go_on(place):
    answers = iter([False, True, True, True, False])
    script = "got = [json.loads(sys.stdin.readline()) for _ in range(2)]; print('[got]', got, file=sys.stderr); "
    script += "say(type='done') if [one['hold'] for one in got] == [True, False] else sys.exit(9)"
    outcome = place.supervise(PRELUDE + script, hold=lambda: next(answers, False))
    assert outcome.ok, outcome.detail


@pytest.mark.parametrize("stops", [True, False], ids=["stops", "alone"])
def test_a_fault_of_a_judge_is_answered_after_what_came_of_it(place, stops):
    class Gone(LocalFaults):
        def failed(self, judge, kind, message):
            return "it is gone"

    turns = Turns(LocalLimiter(), {}, spend=LocalSpend(), budget=None, attempt="a", faults=Gone()) if stops else None
    answers = [{"type": "judge-stopped", "judge": "j", "reason": "it is gone"}] if stops else []
    answers.append({"type": "judge-counted", "fault": 7})
    script = "say(type='judge-failed', fault=7, judge='j', kind='auth', message='no key'); "
    script += f"got = [json.loads(sys.stdin.readline()) for _ in range({len(answers)})]; "
    script += f"say(type='done') if got == {answers!r} else sys.exit(str(got))"
    outcome = place.supervise(PRELUDE + script, turns=turns)
    assert outcome.ok, outcome.detail


@pytest.mark.parametrize("reason", ["disk", "time"])
def test_a_shard_that_passes_a_bound_is_ended_and_what_it_had_finished_stays(place, reason):
    late = []

    def overuse():
        return (reason, "too much") if late else None

    script = PRELUDE + "started(); unit(); started(TWIN); time.sleep(600)"
    outcome = place.supervise(script, started=lambda key: late.append(key) if key == TWIN else None, overuse=overuse)
    assert (outcome.reason, outcome.detail, outcome.finished) == (reason, "too much", 1)
    assert outcome.in_flight == (TWIN,)


def test_a_cancel_ends_the_shard_while_the_store_is_away_and_units_wait_for_it(place, monkeypatch):
    monkeypatch.setattr("mst.store.sink.AWAY_MAX", 1)
    monkeypatch.setattr("mst.store.sink.STALLED_S", -1.0)
    monkeypatch.setattr("mst.store.sink.LEAVING_S", 0.0)
    cancel, back, taken = Cancel(), threading.Event(), []

    class Away(MemoryStore):
        def put(self, key, data, *, sha256=None):
            back.wait(60)

    sink = UnitSink(Away("m"), SHARD, "1-a", stored=lambda _: None, ending=cancel.is_set, leaving=cancel.is_set)

    def take(done, paths):
        taken.append(done.key)
        if len(taken) == 2:
            # the supervising thread waits for room when the cancel comes
            threading.Timer(0.3, cancel.set, ["the machine goes", 0.0]).start()
        sink.take(UnitFiles(str(done.key), paths[0]))

    with sink:
        script = PRELUDE + "started(); unit(); started(TWIN); unit('two', TWIN); time.sleep(600)"
        outcome = place.supervise(script, cancel=cancel, unit=take)
    assert (outcome.reason, outcome.detail, outcome.finished) == ("cancelled", "the machine goes", 2)
    assert taken == [KEY, TWIN]
    assert sink.error is not None
    back.set()


def test_stray_lines_are_skipped(place):
    stray = "print('[1, 2]'); print(''); print('  {}'); "
    outcome = place.supervise(PRELUDE + stray + "unit(); say(type='done')")
    assert outcome.ok
    assert outcome.finished == 1


@pytest.mark.parametrize(
    "line",
    [
        "print('{not json')",
        "print('{}')",
        "say(type='surprise')",
        "say(type='graded', key=KEY, status='splendid', path='units/one.json')",
        'sys.stdout.buffer.write(b\'{"type": "\\xff"}\\n\')',
    ],
)
def test_a_malformed_message_fails_the_attempt(place, line):
    outcome = place.supervise(PRELUDE + f"unit(); {line}; sys.stdout.flush(); time.sleep(600)")
    assert outcome.reason == "protocol"
    assert "no message" in outcome.detail
    assert outcome.finished == 1


def test_a_line_over_the_bound_fails_the_attempt(place):
    outcome = place.supervise(PRELUDE + f"print('x' * {LINE_MAX_BYTES + 1}, flush=True); time.sleep(600)")
    assert outcome.reason == "protocol"
    assert str(LINE_MAX_BYTES) in outcome.detail


@pytest.mark.parametrize("path", ["../outside.json", "/etc/passwd", "units/../../outside.json"])
def test_a_file_outside_the_results_is_never_fetched(place, path):
    script = f"say(type='graded', key=KEY, status='graded', path={path!r}); time.sleep(600)"
    outcome = place.supervise(PRELUDE + script)
    assert outcome.reason == "protocol"
    assert "outside" in outcome.detail
    assert not place.told


def test_a_unit_that_was_not_planned_fails_the_attempt(place):
    outcome = place.supervise(PRELUDE + "unit(key={**KEY, 'trial': 7}); time.sleep(600)")
    assert outcome.reason == "protocol"
    assert "not in its plan" in outcome.detail


def test_an_announced_file_that_is_not_there_loses_the_attempt(place):
    outcome = place.supervise(PRELUDE + "say(type='graded', key=KEY, status='graded', path='units/none.json')")
    assert outcome.reason == "lost"
    assert not place.told


@pytest.mark.parametrize(
    "said",
    [
        "protocol='mst.shard/v9', mst=" + repr(__version__),
        "protocol=" + repr(SHARD_FORMAT) + ", mst='0.0.0'",
    ],
)
def test_another_version_ends_at_hello_and_names_both(place, said):
    script = f"say(type='hello', python='3', machine='m', {said})\nsay(type='need-tokens', names=['TOKEN'])\n"
    outcome = place.supervise(script + "print(sys.stdin.readline(), file=sys.stderr)", values={"TOKEN": "secret"})
    assert outcome.reason == "version"
    assert __version__ in outcome.detail or SHARD_FORMAT in outcome.detail


def test_nothing_is_handed_out_before_hello(place):
    outcome = place.supervise("say(type='need-tokens', names=['TOKEN']); time.sleep(600)", values={"TOKEN": "secret"})
    assert outcome.reason == "protocol"
    assert "before it said hello" in outcome.detail


def test_a_refusal_keeps_its_reason_and_its_kind(place):
    refused = place.supervise(PRELUDE + "say(type='refused', reason='no key for TOKEN', code='grader')")
    version = place.supervise(PRELUDE + "say(type='refused', reason='the coordinator has x 2', code='version')")
    assert (refused.reason, refused.detail) == ("refused", "no key for TOKEN")
    assert version.reason == "version"


def test_a_worker_that_dies_tells_its_code_and_last_words_without_secrets(place):
    script = (
        "say(type='need-tokens', names=['TOKEN'])\ntoken = json.loads(sys.stdin.readline())['values']['TOKEN']\n"
        "started()\nprint('x' * 100_000, file=sys.stderr)\nraise KeyError(token)"
    )
    outcome = place.supervise(PRELUDE + script, values={"TOKEN": "tok-91c2f0"})
    assert outcome.reason == "exited"
    assert "code 1" in outcome.detail
    assert "KeyError" in outcome.detail
    assert "[redacted]" in outcome.detail
    assert "tok-91c2f0" not in outcome.detail
    assert len(outcome.detail) < 4096 + 100
    assert outcome.in_flight == (KEY,)


def test_units_whose_names_run_together_are_told_apart(place):
    outcome = place.supervise(PRELUDE + "started(); started(TWIN); unit(); os._exit(9)")
    assert outcome.in_flight == (TWIN,)


@pytest.mark.parametrize("what", ["time.sleep(600)", "while True: pass"])
def test_a_silent_worker_is_killed_with_what_it_started(place, what):
    script = (
        "child = subprocess.Popen(['sleep', '600'])\n"
        "(results / 'units').mkdir(); (results / 'units' / 'pids').write_text(f'{os.getpid()} {child.pid}')\n"
        "say(type='graded', key=KEY, status='graded', path='units/pids')\nstarted(TWIN)\n"
    )
    outcome = place.supervise(PRELUDE + script + what, silence_s=0.5)
    assert outcome.reason == "silent"
    assert outcome.in_flight == (TWIN,)
    pids = [int(word) for word in (place.results / "units" / "pids").read_text().split()]
    until(lambda: not any(psutil.pid_exists(pid) for pid in pids), "both are gone")


def test_heartbeats_and_stray_output_are_no_silence(place):
    script = (
        "for n in range(16):\n    time.sleep(0.15)\n"
        "    say(type='heartbeat', at='now') if n % 2 else print('still here', flush=True)\n"
    )
    outcome = place.supervise(PRELUDE + script + "unit(); say(type='done')", silence_s=2.0)
    assert outcome.ok


def test_a_cancel_lets_the_unit_in_flight_end(place):
    cancel = Cancel()
    script = "started(); assert json.loads(sys.stdin.readline())['type'] == 'cancel'; unit(); say(type='done')"
    outcome = place.supervise(PRELUDE + script, cancel=cancel, started=lambda _key: cancel.set("enough"))
    assert (outcome.reason, outcome.detail) == ("cancelled", "enough")
    assert outcome.finished == 1


@pytest.mark.parametrize("busy", ["time.sleep(600)", "[print('noise', flush=True) for _ in iter(int, 1)]"])
def test_a_worker_that_does_not_stop_is_killed_when_the_grace_is_over(place, busy):
    cancel = Cancel()
    outcome = place.supervise(
        PRELUDE + "started(); " + busy, cancel=cancel, started=lambda _key: cancel.set("enough", grace_s=0.1)
    )
    assert outcome.reason == "cancelled"
    assert outcome.in_flight == (KEY,)


def test_the_grace_may_be_shortened_later(place):
    cancel = Cancel()

    def twice(_key):
        cancel.set("please")
        threading.Timer(0.3, cancel.set, ("now", 0)).start()

    outcome = place.supervise(PRELUDE + "started(); time.sleep(600)", cancel=cancel, started=twice)
    assert (outcome.reason, outcome.detail) == ("cancelled", "now")


def test_a_worker_that_lingers_after_done_is_no_failure(place, monkeypatch):
    monkeypatch.setattr("mst.shards.supervisor.EXIT_GRACE_S", 0.2)
    outcome = place.supervise(PRELUDE + "unit(); say(type='done', graded=1); time.sleep(600)")
    assert outcome.ok


def test_a_worker_that_its_machine_told_to_stop_is_lost_and_not_done(place):
    outcome = place.supervise(PRELUDE + "unit(); say(type='done', graded=1, cancelled=1)")
    assert outcome.reason == "lost"
    assert "1 units" in outcome.detail or "told by its machine" in outcome.detail


def test_a_worker_that_cannot_be_started_is_no_machine(place, monkeypatch):
    monkeypatch.setattr("sys.executable", "/no/such/python")
    outcome = place.supervise(PRELUDE)
    assert outcome.reason == "no_machine"


class Heard:
    """Events of a runner, kept."""

    def __init__(self):
        self.states = []

    def unit(self, done):
        pass

    def count(self, shard, done):
        pass

    def state(self, state):
        self.states.append(state.state)

    def planned(self, units):
        pass

    def cost(self, usd):
        pass

    def note(self, text):
        pass

    def tokens(self, shard, names):
        return {}


def attempts(place, script, cancel=None):
    events = Heard()
    environment = write_worker(place.home, script)

    def channel(_spec, number):
        return ProcessChannel(place.home / f"worker-{number}", environment=environment)

    return run_attempts(place.spec, channel, events, cancel or Cancel()), events


def test_a_shard_without_progress_is_tried_three_times(place):
    outcome, events = attempts(place, PRELUDE + "os._exit(5)")
    assert not outcome.ok
    assert outcome.reason == "exited"
    assert [attempt.split("-")[0] for attempt in outcome.attempts] == ["1", "2", "3"]
    assert events.states == ["running", "lost", "running", "lost", "running", "failed"]


def test_a_refusal_is_not_tried_again(place):
    outcome, _ = attempts(place, PRELUDE + "say(type='refused', reason='no key', code='grader')")
    assert (outcome.reason, len(outcome.attempts)) == ("refused", 1)


def test_done_without_all_units_is_tried_again_and_says_so(place):
    outcome, _ = attempts(place, PRELUDE + "say(type='done')")
    assert (outcome.ok, outcome.reason, len(outcome.attempts)) == (False, "lost", 3)
    assert "without all" in outcome.detail


def test_what_was_in_flight_twice_is_told_to_the_next_attempt(place):
    script = (
        "poison = results / 'poisoned.json'\n"
        "known = json.loads(poison.read_text()) if poison.exists() else []\n"
        "if len(known) == 2: say(type='refused', reason='told of both', code='x'); sys.exit()\n"
        "started(); started(TWIN); os._exit(9)"
    )
    outcome, _ = attempts(place, PRELUDE + script)
    assert outcome.detail == "told of both"
    assert len(outcome.attempts) == 3
