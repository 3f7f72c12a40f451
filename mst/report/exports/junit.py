"""JUnit XML: a suite per variant, a test per case, in the strict order of Ant's schema, which every CI system reads.

A case that failed is a failure; one that broke down, is missing or has no verdict is an error; one that nobody graded
is skipped. Suites carry their totals in front, so each is collected in a temporary file first.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import BinaryIO, Literal
from xml.sax.saxutils import escape, quoteattr

from mst.model.results import CaseResult, TrialResult
from mst.model.run import RunRecord
from mst.model.summary import SummaryRecord
from mst.report.exports.formats import Asked
from mst.report.failures import Reason, reasons
from mst.report.figures import count
from mst.report.text import clipped, one_line, visible
from mst.report.view import RunView, outcome, trial_results

State = Literal["passed", "failure", "error", "skipped"]
TEXT_LIMIT = 4_000
MAX_TRIALS_TOLD = 10
_UNFIT = re.compile("[\ufffe\uffff\U0001fffe\U0001ffff]")
"""What XML 1.0 does not take even as a reference and `visible` leaves."""


@dataclass
class _Suite:
    """One variant's tests: totals, and the XML of its cases in a temporary file."""

    number: int
    variant: str
    body: BinaryIO
    states: Counter[State] = field(default_factory=Counter)
    seconds: float = 0.0


def write(view: RunView, out: BinaryIO, asked: Asked) -> None:
    """Write all suites; the baseline's stands where the run has it."""
    run, summary = view.run(), view.summary()
    with ExitStack() as opened:
        suites = {
            variant.name: _Suite(number, variant.name, opened.enter_context(tempfile.TemporaryFile()))
            for number, variant in enumerate(each for each in summary.variants if asked.wants(each.name))
        }
        for case in view.case_results():
            if case.variant in suites:
                _add(suites[case.variant], run, case)
        total: Counter[State] = Counter()
        for suite in suites.values():
            total.update(suite.states)
        seconds = sum(suite.seconds for suite in suites.values())
        out.write(b'<?xml version="1.0" encoding="UTF-8"?>\n')
        out.write(f"<testsuites name={_attribute(run.eval_name)} {_totals(total, seconds)}>\n".encode())
        for suite in suites.values():
            _write_suite(suite, run, summary, out)
        out.write(b"</testsuites>\n")


def _add(suite: _Suite, run: RunRecord, case: CaseResult) -> None:
    state = _state(case)
    seconds = case.duration_ms / 1000
    suite.states[state] += 1
    suite.seconds += seconds
    head = (
        f"<testcase name={_attribute(case.id)} "
        f"classname={_attribute(f'{run.eval_name}.{case.variant}')} time={_attribute(f'{seconds:.3f}')}"
    )
    if state == "passed":
        suite.body.write(f"    {head}/>\n".encode())
        return
    trials = trial_results(case)
    found = [(trial.trial, reason) for trial in trials for reason in reasons(trial)]
    first = found[0][1] if found else None
    message = _attribute(_message(case, trials, state, first))
    if state == "skipped":
        outcome_element = f"<skipped message={message}/>"
    else:
        kind = _attribute(state if first is None else first.what.replace(" ", "-"))
        text = escape(_fit(clipped("\n".join(_told(found)), limit=TEXT_LIMIT)))
        outcome_element = f"<{state} message={message} type={kind}>{text}</{state}>"
    suite.body.write(f"    {head}>\n      {outcome_element}\n    </testcase>\n".encode())


def _write_suite(suite: _Suite, run: RunRecord, summary: SummaryRecord, out: BinaryIO) -> None:
    attributes = [
        f"id={_attribute(str(suite.number))}",
        f"name={_attribute(suite.variant)}",
        f"package={_attribute(run.eval_name)}",
        f"timestamp={_attribute(summary.timestamp[:19])}",
        'hostname="localhost"',
    ]
    totals = _totals(suite.states, suite.seconds)
    out.write(f"  <testsuite {' '.join(attributes)} {totals}>\n    <properties>\n".encode())
    for name, value in _properties(suite.variant, run, summary):
        out.write(f"      <property name={_attribute(name)} value={_attribute(value)}/>\n".encode())
    out.write(b"    </properties>\n")
    suite.body.seek(0)
    shutil.copyfileobj(suite.body, out)
    out.write(b"    <system-out/>\n    <system-err/>\n  </testsuite>\n")


def _properties(variant: str, run: RunRecord, summary: SummaryRecord) -> Iterator[tuple[str, str]]:
    yield "run", run.run_id
    yield "mst", run.mst.version
    yield "phases", f"collect {run.phases.collect}, grade {run.phases.grade}"
    if variant == summary.baseline:
        yield "baseline", "true"
    for verdict in summary.verdicts:
        if verdict.candidate == variant:
            yield "verdict", verdict.verdict
            if verdict.regressions:
                yield "regressions", ", ".join(verdict.regressions)


def _totals(states: Counter[State], seconds: float) -> str:
    return (
        f'tests="{states.total()}" failures="{states["failure"]}" errors="{states["error"]}" '
        f'skipped="{states["skipped"]}" time="{seconds:.3f}"'
    )


def _state(case: CaseResult) -> State:
    if case.passed is not None:
        return "passed" if case.passed else "failure"
    outcomes = {outcome(trial) for trial in trial_results(case)}
    return "skipped" if outcomes <= {"ungraded"} else "error"


def _message(case: CaseResult, trials: list[TrialResult], state: State, first: Reason | None) -> str:
    if state == "skipped":
        return "nobody graded it"
    said = "no reason is recorded" if first is None else f"{first.title}: {first.text}"
    if state == "failure" and len(trials) > 1:
        passed = sum(trial.passed is True for trial in trials)
        scored = sum(trial.passed is not None for trial in trials)
        return f"{passed} of {count(scored, 'scored trial')} passed, {case.request.pass_threshold:.0%} needed; {said}"
    return said


def _told(found: list[tuple[int, Reason]]) -> Iterator[str]:
    for number, reason in found[:MAX_TRIALS_TOLD]:
        yield f"trial {number}: {reason.title}: {one_line(reason.text, limit=600)}"
    if len(found) > MAX_TRIALS_TOLD:
        yield f"and {count(len(found) - MAX_TRIALS_TOLD, 'more reason')}"


def _attribute(text: str) -> str:
    return quoteattr(_fit(one_line(text, limit=1_000)))


def _fit(text: str) -> str:
    return _UNFIT.sub("\ufffd", visible(text))
