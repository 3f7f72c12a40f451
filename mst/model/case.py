"""Cases, variants and graders as resolved: nothing in here needs the file system or a dataset any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from mst.model.base import FileRef, Model, digest
from mst.model.keys import TrialKey

CaseKind = Literal["change", "stay_quiet"]
JSONMap = dict[str, Any]


class Identity(Model):
    """What makes two graders the same. Verdicts are only kept across gradings whose identities are equal."""

    type: str
    plugin: str | None = None
    plugin_version: str | None = None
    options_hash: str
    """SHA-256 over the canonical JSON of everything that can change a verdict, files by digest."""
    model: str | None = None
    prompt_hash: str | None = None
    version: str | None = None
    """Declared by the grader's author."""

    @property
    def hash(self) -> str:
        """SHA-256 of the identity: what records carry and resume compares."""
        return digest(self)


class GraderSpec(Model):
    """One assertion, judge or pairwise judge with its settings, files by digest."""

    type: str
    """`contains_text`, `command`, `python`, or a plugin's `<namespace>/<kind>/<name>`."""
    name: str | None = None
    """As given; how it is called in results is decided per case by `mst.grade.names`."""
    options: JSONMap = {}
    files: list[FileRef] = []
    """Shipped with the grader; the working folder of what it runs."""
    secrets: list[str] = []
    """Names of the secrets that go into its environment."""
    threshold: float = 0.7
    reps: int = 1
    requires: list[str] = []
    """Dotted paths into the case and trial; missing or empty means skipped."""
    timeout_s: float | None = None
    retries: int = 0
    swap: bool = True
    """Of a pairwise judge: ask in both orders."""
    pairing: Literal["index", "last", "all"] = "index"
    """Of a pairwise judge: which trials are compared with which: those of one number, the last ones, or all."""
    prompt_hash: str | None = None
    """Of the texts that a judge of ours puts around what it asks."""
    plugin_version: str | None = None
    version: str | None = None
    given: list[str] | None = None
    """Fields that were written down, so that a case's judge inherits the others from the config's judge of the same
    name; None: those that differ from their defaults."""

    def identity(self) -> Identity:
        """Who gave a verdict: type, version and a hash of what can change it (not its name, files by digest)."""
        settled = {
            "options": self.options,
            "files": [file.to_dict() for file in self.files],
            "threshold": self.threshold,
            "reps": self.reps,
            "requires": self.requires,
            "timeoutS": self.timeout_s,
            "swap": self.swap,
        }
        if self.pairing != "index":
            settled["pairing"] = self.pairing
        return Identity(
            type=self.type,
            plugin=self.type.split("/", 1)[0] if "/" in self.type else None,
            plugin_version=self.plugin_version,
            options_hash=digest(settled),
            model=self.options.get("model"),
            prompt_hash=self.prompt_hash,
            version=self.version,
        )


class TrialLimits(Model):
    """Bounds of one trial; a limit that is reached ends the program, and what it left is graded."""

    time_s: float = 600.0
    cost_usd: float | None = None
    tokens: int | None = None
    turns: int | None = None
    output_bytes: int = 10 * 1024 * 1024
    artifact_bytes: int = 100 * 1024 * 1024
    artifact_files: int = 10_000


class StageTimeouts(Model):
    """Bounds of the stages around the program under test, and of one grader."""

    setup_s: float = 120.0
    export_s: float = 120.0
    score_s: float = 120.0
    cleanup_s: float = 60.0


class Case(Model):
    """One thing to be answered. Immutable; `digest` is over everything but the digest itself."""

    id: str
    dataset: str
    input: str | JSONMap = ""
    expected: JSONMap = {}
    tags: list[str] = []
    metadata: JSONMap = {}
    kind: CaseKind = "change"
    assertions: list[GraderSpec] = []
    judges: list[GraderSpec] = []
    judge_reps: int | None = None
    trials: int | None = None
    pass_threshold: float | None = None
    client: str | None = None
    model: str | None = None
    client_options: JSONMap = {}
    fixture: list[FileRef] | None = None
    """The files that the workspace starts from; None when the case has no workspace of its own."""
    solution: list[FileRef] | None = None
    """Additive overlay on the fixture that a correct scorer must pass."""
    checks: FileRef | None = None
    """The case's own scorer."""
    setup: list[list[str]] = []
    teardown: list[list[str]] = []
    image: str | None = None

    @property
    def digest(self) -> str:
        """SHA-256 over the case's canonical JSON, files by content."""
        return digest(self)

    @property
    def has_judges(self) -> bool:
        """Whether it brings judges of its own, or says how often to ask the others."""
        return bool(self.judges) or self.judge_reps is not None

    @property
    def is_equipped(self) -> bool:
        """Whether it brings more than data: judges, checks, files, secrets, a client. Plain assertions are data."""
        specs = [*self.assertions, *self.judges]
        return bool(
            self.has_judges
            or self.checks is not None
            or self.client is not None
            or self.model is not None
            or self.client_options
            or any(spec.files or spec.secrets for spec in specs)
        )

    @property
    def family(self) -> str | None:
        """Cases of one family are not independent; statistics take the family as their unit."""
        cluster = self.metadata.get("cluster")
        return None if cluster is None else str(cluster)

    def for_collecting(self) -> Case:
        """The case without what the program under test must not see: answers, graders, checks and solution."""
        return self.model_copy(
            update={"expected": {}, "assertions": [], "judges": [], "checks": None, "solution": None, "metadata": {}}
        )


class Variant(Model):
    """One set-up under test, fully resolved: the config with the variant's patch applied."""

    name: str
    description: str | None = None
    client: str = "echo"
    client_options: JSONMap = {}
    servers: JSONMap = {}
    model: str | None = None
    input_template: str | None = None
    tools: JSONMap = {}
    env: JSONMap = {}
    files: list[FileRef] = []
    sandbox: JSONMap = Field(default_factory=lambda: {"kind": "none"})
    trial_limits: TrialLimits = TrialLimits()
    judges: list[GraderSpec] = []
    metrics: list[JSONMap] = []
    expect_used: list[str] = []


class EvalPlan(Model):
    """An eval config as resolved: what a run, a bundle and a regrade work from. Cases travel beside it."""

    name: str
    description: str | None = None
    config_id: str
    """Identity of the eval across versions of its config: the hash of its name and dataset names."""
    content_hash: str
    """SHA-256 over the resolved config without paths of a machine; datasets have hashes of their own."""
    variants: list[Variant]
    baseline: str
    trials: int = 1
    trials_override: int | None = None
    """Trials asked for at run time: for every case, whatever the case says."""
    concurrency: int = 4
    retries: int = 0
    """How often a trial that an environment or harness error ended is made again at once."""
    pass_threshold: float = 1.0
    assertions: list[GraderSpec] = []
    pairwise_judges: list[GraderSpec] = []
    secrets: list[str] = []
    stage_timeouts: StageTimeouts = StageTimeouts()
    pricing: JSONMap = {}
    rate_limits: JSONMap = {}
    budget: JSONMap = {}
    metrics: list[JSONMap] = []
    plugins: list[str] = []
    files: list[FileRef] = []
    """Local files that clients name in their options: working files of the programs under test."""
    redact_stored_responses: bool = False
    config: JSONMap = {}
    """The eval config as written, after `extends`, in snake_case."""

    def variant(self, name: str) -> Variant:
        """The variant of this name.

        Raises:
            KeyError: no such variant.
        """
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise KeyError(name)

    @property
    def candidates(self) -> list[str]:
        """Names of the variants other than the baseline, in the config's order."""
        return [variant.name for variant in self.variants if variant.name != self.baseline]

    def trials_of(self, case: Case) -> int:
        """How many trials each variant makes on a case."""
        return self.trials_for(case.trials)

    def trial_keys(self, case: Case, variants: Iterable[str]) -> list[TrialKey]:
        """Every trial of a case, variant by variant in the order given."""
        numbers = range(self.trials_of(case))
        return [TrialKey(variant=name, case_id=case.id, trial=number) for name in variants for number in numbers]

    def trials_for(self, own: int | None) -> int:
        """The same for a case by the number that it asks for itself, if it does."""
        return self.trials_override or own or self.trials


class DatasetRecord(Model):
    """A dataset as it was resolved."""

    name: str
    case_count: int
    content_hash: str
    ref: str | None = None
    snapshot: str | None = None
    live: bool | None = None
