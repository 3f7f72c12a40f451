"""A realistic run folder: four tools on two dozen cases, with everything that can go wrong in it, graded by the real
path from verdicts that are written down here."""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path

from mst.config.cases import CaseFile
from mst.model.base import FileRef, digest
from mst.model.case import Case, DatasetRecord, EvalPlan, GraderSpec, Variant
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.run import Grading, GradingRunner
from mst.model.score import (
    CheckResult,
    ComparisonGrading,
    GraderScore,
    PairCall,
    Preference,
    SubScore,
    TrialGrading,
)
from mst.model.summary import SummaryRecord
from mst.model.transcript import Event, Transcript, Usage
from mst.model.trial import TrialRecord
from mst.runs.assemble import assemble
from mst.runs.folder import RunFolder
from mst.runs.grading import GradingWalk, pair_digests
from mst.runs.record import environment, new_record

HOSTILE = (
    "</script><script>window.hurt=1</script><img src=x onerror='window.hurt=1'>"
    "<!--<script>\u2028{{ 7*7 }}\x1b[31mred\x07 \u202egnp.exe &amp; \"'"
)
VARIANTS = ["autoflake", "pyupgrade", "ruff", "ruff-unsafe"]
TOPICS = [
    "unused-import", "unused-variable", "re-export", "format-call", "percent-format", "old-super", "typing-generics",
    "oserror-alias", "compare-none", "compare-true", "mutable-default", "not-in", "is-literal", "raise-notimplemented",
    "f-string", "star-import", "duplicate-key", "type-compare", "lambda-assign", "io-open", "import-side-effect",
    "query-none", "percent-non-tuple", "optional-dependency",
]  # fmt: skip
PASSING = {"autoflake": 6, "pyupgrade": 10, "ruff": 17, "ruff-unsafe": 22}


@dataclass
class Shape:
    """What kind of run to make."""

    variants: list[str] = field(default_factory=lambda: list(VARIANTS))
    cases: int = 24
    trials: int = 1
    trouble: bool = True
    pairwise: bool = True
    judge: bool = True
    output_chars: int = 0
    seed: int = 7


def case_name(number: int) -> str:
    return TOPICS[number] if number < len(TOPICS) else f"{TOPICS[number % len(TOPICS)]}-{number}"


def make_case(number: int) -> Case:
    quiet = number % 24 >= 20
    tags = ["stay_quiet", "regression"] if quiet else ["change"]
    text = HOSTILE if number == 1 else "import os\n\n\ndef area(r):\n    return 3.14 * r * r\n"
    return Case(
        id=HOSTILE if number == 2 else case_name(number),
        dataset="faults",
        input={"task": "Clean this module up.", "mod.py": text},
        expected={"answer": "def area(r):\n    return 3.14 * r * r\n"},
        tags=[*tags, "held-out"] if number == 5 else tags,
        metadata={"description": f"{case_name(number).replace('-', ' ')} is mended and nothing else changes"},
        checks=FileRef(path="checks.py", sha256="c" * 64, size=1),
    )


def make_plan(shape: Shape) -> EvalPlan:
    judges = [GraderSpec(type="rubric", name="tone", options={"model": "judge-1"})] if shape.judge else []
    return EvalPlan(
        name="python-fixers",
        config_id="a" * 64,
        content_hash="b" * 64,
        variants=[
            Variant(
                name=name,
                description=HOSTILE if name == "pyupgrade" else f"the {name} command line",
                client="command",
                client_options={"argv": [name, "--fix" if "ruff" in name else "--in-place", "mod.py"]},
                judges=judges,
                env={"LEVEL": "1"} if name == "ruff" else {},
            )
            for name in shape.variants
        ],
        baseline="autoflake",
        trials=shape.trials,
        pairwise_judges=[GraderSpec(type="smaller_diff"), GraderSpec(type="command", name="reader")]
        if shape.pairwise
        else [],
    )


def passes(name: str, number: int, trial: int) -> bool:
    if number % 24 == 21:
        return name != "ruff-unsafe"
    return (number * 7 + trial // 2) % 24 < PASSING.get(name, 12)


def make_trial(shape: Shape, case: Case, name: str, number: int, trial: int) -> TrialRecord | None:
    common = {"variant": name, "case_id": case.id, "dataset_name": case.dataset, "trial": trial, "run_id": "x"}
    if shape.trouble and (name, number) == ("ruff", 9):
        return None
    if shape.trouble and (name, number) == ("ruff", 11):
        return TrialRecord(
            **common, status="error", duration_ms=12, infrastructure_error=True, error_kind="environment",
            error=f"the machine ran out of memory {HOSTILE}",
        )  # fmt: skip
    events = [
        Event(kind="message", name="user", output="Clean this module up."),
        Event(kind="tool_call", source="mcp", server="files", name="read", arguments={"path": "mod.py", "__proto__": 1},
              output=HOSTILE + "y" * shape.output_chars, duration_ms=12.5),
        Event(kind="command", name=f"{name} mod.py", output="1 fault mended\n", duration_ms=80, is_error=number == 3),
    ]  # fmt: skip
    added = HOSTILE if number == 1 else "ok"
    diff = f"--- a/mod.py\n+++ b/mod.py\n@@ -1,3 +1,2 @@\n-import os\n def area(r):\n+# {added}\n"
    return TrialRecord(
        **common,
        duration_ms=90.0 + number,
        limit_hit="timeout" if shape.trouble and number == 3 else None,
        transcript=Transcript(events=events, final_text=HOSTILE if number == 1 else "Done.", evidence="structured"),
        transcript_evidence="structured",
        diff=diff,
        artifact_files=[
            FileRef(path="mod.py", sha256=digest(diff), size=120),
            FileRef(path="a<b>.txt", sha256="d" * 64, size=5),
        ],
        exit_code=0,
        client_usage=Usage(input_tokens=120, output_tokens=30, total_cost_usd=0.002) if name != "pyupgrade" else None,
        started_at="2026-10-07T18:25:04Z",
    )


class WrittenVerdicts:
    """A grading source whose verdicts follow from names."""

    def __init__(self, shape: Shape, numbers: dict[str, int]) -> None:
        self.shape = shape
        self.numbers = numbers

    async def trial(self, key, subject, graders):
        number = self.numbers[key.case_id]
        good = passes(key.variant, number, key.trial)
        scores = {grader.name: self.score(grader.name, key, number, good=good) for grader in graders}
        return TrialGrading(
            key=key,
            trial_digest=subject.digest,
            scores=scores,
            identities={grader.name: grader.identity for grader in graders},
        )

    def score(self, grader: str, key: TrialKey, number: int, *, good: bool) -> GraderScore:
        trouble = self.shape.trouble
        if grader == "checks":
            clean = good or number % 3 == 0
            behaviour = good or not clean
            return GraderScore(
                passed=good,
                graded=False if trouble and number == 13 else None,
                details=f"{clean + behaviour} of 2 checks passed",
                checks=[
                    CheckResult(
                        name="behaviour", passed=behaviour, detail=None if behaviour else f"AssertionError: {HOSTILE}"
                    ),
                    CheckResult(name="clean", passed=clean, detail=None if clean else "`import os` is still there"),
                ],
            )
        if trouble and (key.variant, number) == ("pyupgrade", 7):
            return GraderScore(passed=False, error=f"the judge answered 429 {HOSTILE}")
        if trouble and number == 13:
            return GraderScore(passed=True, skipped=True)
        return GraderScore(
            passed=True,
            score=0.9,
            details="0.9 reaches 0.7",
            reasoning=f"Reads well. {HOSTILE if number == 1 else ''}",
            judge_name="tone",
            judge_provider="acme",
            judge_model="judge-1",
            sub_scores={"brevity": SubScore(score=0.8, reasoning="short")},
            usage=Usage(input_tokens=10, output_tokens=5, total_cost_usd=0.0005),
        )

    async def comparison(self, key: ComparisonKey, pair, judges):
        number = self.numbers[key.case_id]
        better = passes(key.candidate, number, 0)
        worse = passes("autoflake", number, 0)
        side = "tie" if better == worse else "candidate" if better else "baseline"
        return ComparisonGrading(
            key=key,
            trial_digests=pair_digests(pair),
            preferences={judge.name: self.preference(judge.name, side, number) for judge in judges},
            identities={judge.name: judge.identity for judge in judges},
        )

    def preference(self, judge: str, side, number: int) -> Preference:
        if judge.endswith("reader") and self.shape.trouble and number == 6:
            return Preference(judge=judge, error="the reader gave up")
        disagree = judge.endswith("reader") and number % 5 == 0
        calls = [
            PairCall(order="baseline_first", baseline_trial=0, candidate_trial=0,
                     preference=side, reasoning=f"Smaller. {HOSTILE}"),
            PairCall(order="candidate_first", baseline_trial=0, candidate_trial=0,
                     preference="baseline" if disagree else side, reasoning="The other way round."),
        ]  # fmt: skip
        two_orders = judge.endswith("reader")
        return Preference(
            judge=judge,
            preference="tie" if disagree and side != "baseline" else side,
            consistent=(side == "baseline" or not disagree) if two_orders else None,
            reasoning="Changes fewer lines.",
            pairs=calls if two_orders else calls[:1],
        )


@dataclass
class MadeRun:
    """A run folder and what is in it."""

    folder: RunFolder
    summary: SummaryRecord
    cases: list[Case]

    @property
    def run(self):
        return self.folder.run()


def build_run(root: Path, shape: Shape | None = None) -> MadeRun:
    """Write a run of this shape under a folder, through the real grading path."""
    shape = shape or Shape()
    folder = RunFolder(root / "20261007T182504Z-7f3c2a")
    folder.path.mkdir(parents=True)
    cases = [make_case(number) for number in range(shape.cases)]
    plan = make_plan(shape)
    run = new_record(
        folder.run_id,
        plan,
        cases=CaseFile.write(folder.cases_path, cases),
        datasets=[DatasetRecord(name="faults", case_count=len(cases), content_hash="e" * 64)],
        seed=shape.seed,
        environment=environment("local", 1, None),
        selection=None,
        config_path=None,
    )
    folder.write_run(run)
    numbers = {case.id: number for number, case in enumerate(cases)}
    for number, case in enumerate(cases):
        for name in shape.variants:
            for trial in range(shape.trials):
                record = make_trial(shape, case, name, number, trial)
                if record is not None:
                    folder.write_trial(record, None)
    run = run.model_copy(update={"grading": Grading(runner=GradingRunner(name="celery", shards=3))})
    walk = GradingWalk(
        plan=plan,
        trials=folder,
        source=WrittenVerdicts(shape, numbers),
        variants=shape.variants,
        cancel=asyncio.Event(),
    )
    summary = asyncio.run(assemble(folder, run, walk, cases))
    return MadeRun(folder=folder, summary=summary, cases=cases)


def index_of(page: Path):
    """The index that a page carries."""
    text = page.read_text(encoding="utf-8")
    start = text.index('id="index">') + len('id="index">')
    return json.loads(text[start : text.index("</script>", start)])
