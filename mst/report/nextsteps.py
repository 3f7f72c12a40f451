"""What to do about a reason of failure: one sentence and the exact command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from mst.report.failures import Reason

MAX_TYPED = 3
MAX_TYPED_CHARS = 80
"""Cases in a command, and how long their IDs may be: it is there to be copied."""


@dataclass(frozen=True, slots=True)
class Naming:
    """How this run is written on a command line.

    Attributes:
        run: the run that is looked at, as a RUN argument.
        source: the run that collected its trials.
        config: the eval config's path, or `CONFIG` when nobody knows it any more.
        where: options that say where runs are, such as `--results URI`; empty for the defaults.
    """

    run: str
    source: str
    config: str
    where: tuple[str, ...] = ()

    def command(self, *words: str) -> str:
        """A command line that can be copied."""
        return shlex.join(["mst", *words, *self.where])


@dataclass(frozen=True, slots=True)
class Step:
    """What to do, and the command that does it."""

    say: str
    command: str | None = None


_OWED: dict[str, str] = {
    "auth": "the provider does not take the key: put a good one into the secrets file",
    "quota": "the account has no money left: top it up",
    "rate_limit": "too many requests: lower `rate_limits` in the eval config, or wait",
    "timeout": "no answer in time: look whether the judge or its model hangs; more time is `timeout_s` of the grader",
    "transport": "no connection: look at the network",
    "server": "the provider failed: wait",
    "request": "the provider does not take the request: look at the judge's model and options",
    "refusal": "the model declined to judge: look at the case's text and the judge's prompt",
    "answer": "the answer was not usable: look at the judge's prompt, or ask a stronger model",
    "stopped": "not asked, since the grader was stopped after the errors above",
    "grader": "the grader itself failed: mend what it says",
}
_LIMITS = {
    "timeout": "trial_limits.time_s",
    "cost": "trial_limits.cost_usd",
    "tokens": "trial_limits.tokens",
    "turns": "trial_limits.turns",
    "output": "trial_limits.output_bytes",
}
_BROKE: dict[str, str] = {
    "environment": "the trial's surroundings failed: a file, a program or a sandbox; mend what it says",
    "harness": "mst or its client failed, or the case's input does not fit",
    "worker_lost": "the machine went away",
    "broker": "the broker failed",
    "scorer": "the case's own checks could not run: mend them",
}


def steps(reason: Reason, naming: Naming, *, cases: Sequence[str], suspect: str | None) -> list[Step]:
    """What to do about trials with this reason, the first thing first.

    Args:
        reason: of one of them; all have the same `what`, `who`, `fault` and `stage`.
        naming: how to write the run.
        cases: some of their case IDs.
        suspect: why their grader should not be trusted, when there is a sign of that.
    """
    if reason.what == "missing":
        return [Step("collect what is missing", _collect(naming))]
    if reason.what == "infrastructure":
        return _broken(reason, naming)
    if reason.what == "incomplete":
        return [
            Step(
                "nothing is wrong with the machine, and made again they come out the same: give the client what they "
                "lack (a solution for the oracle, a line for the import), or leave these cases out",
                shlex.join(["mst", "validate", naming.config]),
            )
        ]
    if reason.what == "grading error":
        return owed(reason.fault, naming)
    if reason.what == "ungraded":
        return [
            Step(
                "no grader with a say looked at these trials: give the eval an assertion, check or judge that does",
                shlex.join(["mst", "validate", naming.config]),
            )
        ]
    return _failed(reason, naming, cases, suspect)


def owed(fault: str, naming: Naming) -> list[Step]:
    """What to do about a grader, or a pairwise judge, that gave no verdict."""
    said = _OWED.get(fault, _OWED["grader"])
    resume = ["grade", naming.run, "--resume"]
    if fault == "auth":
        resume += ["--secrets-file", "FILE"]
    return [
        Step(f"{said}; then ask only for the verdicts that lack", naming.command(*resume)),
        Step(
            "if the grader itself had to change, grade anew and keep the other verdicts",
            naming.command("grade", naming.run, "--reuse", naming.run),
        ),
    ]


def _broken(reason: Reason, naming: Naming) -> list[Step]:
    said = _BROKE.get(reason.fault, "it broke down before there was an answer")
    found = [Step(f"{said}; then collect these trials again", _collect(naming))]
    if reason.fault == "environment":
        found.append(Step("what this machine lacks", "mst doctor"))
    if reason.fault in {"worker_lost", "broker"}:
        found.append(Step("the fleet's state", "mst fleet status"))
    return found


def _collect(naming: Naming) -> str:
    return naming.command("run", naming.config, "--resume", naming.source)


def _failed(reason: Reason, naming: Naming, cases: Sequence[str], suspect: str | None) -> list[Step]:
    found = []
    if suspect is not None:
        found.append(Step(f"do not trust it yet: {suspect.rstrip('.')}", _check_of(reason, naming)))
    if reason.what == "limit":
        said = _LIMITS.get(reason.fault, f"the sandbox's {reason.fault}")
        found.append(Step(f"if the program deserves more, raise {said} in the eval config"))
    if reason.what == "program":
        found.append(Step("the program's own error: see what it printed in the report's transcript"))
    found.append(Step("see what was answered, and why it failed", naming.command("open", naming.run)))
    typed = [case for case in cases if case.isprintable() and len(case) <= MAX_TYPED_CHARS][:MAX_TYPED]
    if typed:
        picked = [word for case in typed for word in ("--case", case)]
        found.append(Step("after a change, try these cases alone", naming.command("run", naming.config, *picked)))
    return found


def _check_of(reason: Reason, naming: Naming) -> str:
    if reason.what == "judge":
        return naming.command("judges", "assess", naming.run, "--judge", reason.who.removeprefix("judge."))
    return shlex.join(["mst", "validate", naming.config, "--oracle", "--noop"])
