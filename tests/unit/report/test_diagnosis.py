import io
import shlex

import click
import pytest
from rich.console import Console

from mst.cli import cli
from mst.model.summary import HealthFinding
from mst.report import diagnosis
from mst.report.diagnosis import diagnose, diagnosis_document, headline, render_diagnosis
from mst.report.failures import Reason
from mst.report.nextsteps import Naming, owed, steps

NAMING = Naming(run="7f3c2a.g2", source="7f3c2a", config="eval.yaml", where=("--results", "s3://bucket/a b"))


@pytest.fixture(scope="module")
def found(four):
    return diagnose(four.folder, NAMING)


def rendered(found, *, width=80, limit=10):
    stream = io.StringIO()
    render_diagnosis(found, Console(file=stream, width=width), limit=limit)
    return stream.getvalue()


def test_what_is_in_no_number_comes_before_failed_answers_and_those_by_size(found):
    whats = [cause.what for cause in found.causes]
    assert whats[:4] == ["missing", "infrastructure", "grading error", "comparison error"]
    rest = [cause.total for cause in found.causes[4:]]
    assert rest == sorted(rest, reverse=True)


def test_causes_name_kind_grader_and_an_example(found):
    causes = {cause.title: cause for cause in found.causes}
    broken = causes["infrastructure failure (environment)"]
    assert (broken.total, broken.by_variant, broken.example[0].variant) == (1, {"ruff": 1}, "ruff")
    assert broken.example[1].startswith("the machine ran out of memory")
    clean = causes["check clean failed"]
    assert (clean.what, clean.who) == ("check", "checks: clean")
    assert len(clean.cases) <= diagnosis.MAX_CASES
    assert "grading error: pairwise.reader (grader)" in causes


def test_a_program_that_ended_badly_comes_before_the_graders_that_saw_only_its_answer(four, monkeypatch):
    def both(_trial):
        return [Reason("assertion", "does not contain x", who="contains_text"), Reason("program", "exit code 1")]

    monkeypatch.setattr(diagnosis, "reasons", both)
    assert [cause.what for cause in diagnose(four.folder, NAMING).causes if cause.what != "comparison error"] == [
        "program",
        "assertion",
    ]


def test_the_headline_counts_every_trial_once(found):
    assert found.outcomes.total() == 96
    assert headline(found) == (
        f"python-fixers 7f3c2a: of 96 trials {found.outcomes['passed']} passed, {found.outcomes['failed']} failed, "
        "1 broke down, 1 missing, 1 without a verdict, 4 ungraded"
    )


def test_one_variant_can_be_looked_at(four):
    found = diagnose(four.folder, NAMING, variants=("pyupgrade",))
    assert found.outcomes.total() == 24
    assert {name for cause in found.causes for name in cause.by_variant} == {"pyupgrade"}


def test_a_run_without_failures_says_so(four, monkeypatch):
    monkeypatch.setattr(four.folder, "case_results", lambda: iter(()))
    monkeypatch.setattr(four.folder, "preferences", lambda: iter(()))
    assert headline(diagnose(four.folder, NAMING)).endswith("none of 0 trials passed; nothing to diagnose")


def test_causes_are_bounded_and_the_rest_is_counted_together(four, found, monkeypatch):
    monkeypatch.setattr(diagnosis, "MAX_CAUSES", 2)
    bounded = diagnose(four.folder, NAMING)
    assert len(bounded.causes) == 3
    assert sum(cause.total for cause in bounded.causes) == sum(cause.total for cause in found.causes)


@pytest.mark.parametrize("width", [80, 120])
def test_only_commands_are_wider_than_the_console(found, width):
    lines = rendered(found, width=width).splitlines()
    assert all(len(line) <= width or line.strip().startswith("mst ") for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_what_is_left_out_is_counted(found):
    assert f"and {len(found.causes) - 2} more causes; --limit {len(found.causes)} shows all" in rendered(found, limit=2)


def test_the_document_has_all_of_it(found):
    document = diagnosis_document(found).to_print()
    assert document["kind"] == "diagnosis"
    assert sum(document["outcomes"].values()) == document["trials"] == 96
    first = document["causes"][0]
    assert set(first) == {"what", "title", "grader", "kind", "stage", "count", "byVariant", "cases", "example", "next"}
    assert first["next"] == [{
        "say": "collect what is missing",
        "command": "mst run eval.yaml --resume 7f3c2a --results 's3://bucket/a b'",
    }]  # fmt: skip


REASONS = [
    *(Reason(what, "x") for what in ("missing", "ungraded", "unexplained", "program")),
    *(Reason(what, "x", who="g") for what in ("check", "assertion", "judge")),
    *(Reason("infrastructure", "x", fault=fault) for fault in ("environment", "harness", "worker_lost", "broker", "")),
    *(Reason("grading error", "x", who="judge.a", fault=fault) for fault in ("auth", "timeout", "grader", "new")),
    *(Reason("limit", "x", fault=fault) for fault in ("timeout", "pids")),
]


def takes(command):
    """Whether the command line takes these words; nothing is run."""
    context, found, words = click.Context(cli, info_name="mst"), cli, shlex.split(command)[1:]
    while isinstance(found, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        found = found.get_command(context, name)
        assert found is not None, command
    _, rest, _ = found.make_parser(click.Context(found)).parse_args(list(words))
    return not rest


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: f"{reason.what}-{reason.fault}")
def test_every_reason_has_something_to_do_and_its_commands_can_be_typed(reason):
    found = steps(reason, NAMING, cases=["a b", "--c"], suspect="it fails everything")
    assert found
    assert all(takes(step.command) for step in found if step.command)


def test_a_key_that_is_refused_asks_for_the_secrets_file():
    assert "--secrets-file FILE" in owed("auth", NAMING)[0].command


def test_a_grader_in_ill_health_is_suspected_first(four, monkeypatch):
    sick = HealthFinding(grader="checks", kind="contradicts_oracle", said="checks fails the oracle's answer")
    summary = four.summary.model_copy(update={"health": [sick]})
    monkeypatch.setattr(four.folder, "summary", lambda: summary)
    cause = next(cause for cause in diagnose(four.folder, NAMING).causes if cause.what == "check")
    assert cause.steps[0].say == "do not trust it yet: checks fails the oracle's answer"
    assert cause.steps[0].command == "mst validate eval.yaml --oracle --noop"
