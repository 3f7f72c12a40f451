"""Shards that fill their folder or take for ever: ended with a clear outcome, and everything else is graded once."""

import pytest

from mst.testing.commandline import ended
from mst.testing.fleet import Bed, fleet

pytestmark = pytest.mark.server

FILLS = """
import os, tempfile
def overdo():
    folder = tempfile.mkdtemp()
    for number in range(30):
        with open(os.path.join(folder, str(number)), "wb") as file:
            file.write(bytes(1024**2))
    time.sleep(600)
"""
TAKES_LONG = """
def overdo():
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("overdoes", "bound", "said_why"),
    [
        (FILLS, ("--shard-disk", "0.02"), "more disk than a shard may"),
        (TAKES_LONG, ("--shard-minutes", "0.15"), "longer than a shard may"),
    ],
    ids=["disk", "time"],
)
def test_a_unit_that_overdoes_it_twice_is_given_up_and_the_others_are_graded_once(tmp_path, overdoes, bound, said_why):
    with fleet(tmp_path / "fleet") as one:
        bed = Bed(one, tmp_path / "quiz", cases=3)
        judge = bed.home / "judge.py"
        head, _, rest = judge.read_text().partition('if has("slow"):')
        judge.write_text(f'{head}{overdoes}\nif key == "B c2":\n    overdo()\nif has("slow"):{rest}')
        one.start(*bound)
        said = ended(bed.start("--config", bed.quiz.config, shards=1))
        assert said.code == 3, said.err
        assert said_why in said.err
        [worker] = one.workers.values()
        assert worker.process.poll() is None
        [machine] = bed.newest().run().grading.runner.machines
        # the second attempt finished nothing; the third gave up on the unit and did the rest
        assert (machine.ok, machine.attempts[-1].partition("-")[0]) == (True, "3")
        calls = bed.quiz.calls()
        assert calls["B c2"] == 2
        assert {key for key, count in calls.items() if count > 1} == {"B c2"}
        assert set(calls) == bed.quiz.keys
        scores = [path for path in (bed.newest().path / "scores").rglob("*") if path.is_file()]
        assert [path for path in scores if "crashed the worker twice" in path.read_text()]
