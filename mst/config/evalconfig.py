"""The eval config as people write it. What it means is decided in `resolve`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from mst.config.written import Written

Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
JSONMap = dict[str, Any]

GRADER_SCHEMA = {
    "description": "A name, one mapping {<type>: options} with settings beside it, or {type: ..., ...}.",
    "anyOf": [{"type": "string"}, {"type": "object"}],
}
GraderEntries = Annotated[Any, WithJsonSchema({"type": "array", "items": GRADER_SCHEMA})]
AssertionEntries = Annotated[
    Any, WithJsonSchema({"anyOf": [{"type": "array", "items": GRADER_SCHEMA}, {"type": "object"}]})
]
DatasetEntries = Annotated[
    Any,
    WithJsonSchema({"type": "array", "minItems": 1, "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}}),
]


SERVERS_SCHEMA = {
    "anyOf": [
        {"type": "object", "additionalProperties": {"type": "object"}},
        {"type": "array", "items": {"type": "string"}},
    ]
}


def _value_or_secret(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise ValueError("should be a text or {secret: NAME}")  # noqa: TRY004 - pydantic makes faults of ValueErrors
    return value


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _by_kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


class LimitsWritten(Written):
    """Bounds of one trial; a limit that is reached ends the program, and what it left is graded."""

    time_s: Seconds | None = None
    """Seconds for the program; 600 unless given."""
    cost_usd: Annotated[float, Field(gt=0)] | None = None
    """What the program's model may cost."""
    tokens: Positive | None = None
    """Tokens in and out."""
    turns: Positive | None = None
    """Turns of an agent."""
    output_bytes: Positive | None = None
    """What the program may print; 10 MB unless given."""
    artifact_bytes: Positive | None = None
    """What it may leave behind; 100 MB unless given."""
    artifact_files: Positive | None = None
    """How many files; 10,000 unless given."""


class TimeoutsWritten(Written):
    """Bounds of the stages around the program under test, and of one grader."""

    setup_s: Seconds | None = None
    """Making the workspace and running a case's `setup`; 120 unless given."""
    export_s: Seconds | None = None
    """Diff and copy of what was left; 120 unless given."""
    score_s: Seconds | None = None
    """One call of a grader that sets no `timeout_s`; 120 unless given."""
    cleanup_s: Seconds | None = None
    """`teardown` and deleting the workspace; 60 unless given."""


class RateWritten(Written):
    """How fast one provider or server may be used, over all shards."""

    concurrent: Positive | None = None
    per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None


class RateLimitsWritten(Written):
    """Limits by provider and by server label."""

    providers: dict[str, RateWritten] = {}
    servers: dict[str, RateWritten] = {}


class BudgetWritten(Written):
    """Bounds of the whole run."""

    cost_usd: Annotated[float, Field(gt=0)] | None = None
    tokens: Positive | None = None


class PriceWritten(Written):
    """USD per million tokens."""

    input: Annotated[float, Field(ge=0)] | None = None
    output: Annotated[float, Field(ge=0)] | None = None
    cache_read: Annotated[float, Field(ge=0)] | None = None
    cache_write: Annotated[float, Field(ge=0)] | None = None


class SandboxWritten(Written):
    """What isolates a trial. `none` says that it does not isolate."""

    kind: Literal["none", "bwrap", "docker"] = "none"
    image: str | None = None
    network: Literal["none", "allowlist", "open"] | None = None
    allow: list[str] | None = None
    proxy: str | None = None
    memory: str | int | None = None
    cpus: Annotated[float, Field(gt=0)] | None = None
    pids: Positive | None = None
    disk: str | int | None = None
    read: list[str] | None = None


class Setup(Written):
    """What a variant may set. In the config itself the same keys are what every variant starts from."""

    client: str | None = None
    """How the program under test is driven; the client by name."""
    client_options: JSONMap | None = None
    """Options of the client; its own schema checks them."""
    servers: Annotated[Any, WithJsonSchema(SERVERS_SCHEMA)] = None
    """MCP servers by label: `{command, args, env, cwd}` or `{url, headers}`. A variant may also list labels."""
    model: str | None = None
    """Name of the model, for clients and reports."""
    input_template: str | None = None
    """The prompt; `{{input}}` stands for the case's input."""
    tools: JSONMap | None = None
    """Descriptions of tools, for clients that can replace them."""
    env: dict[str, Annotated[str | JSONMap, BeforeValidator(_value_or_secret)]] | None = None
    """Environment of the program: `NAME: value`, or `NAME: {secret: NAME}`."""
    files: str | None = None
    """A folder that is laid over every case's files."""
    sandbox: Annotated[SandboxWritten, BeforeValidator(_by_kind)] | None = None
    """What isolates a trial: `none`, or a mapping with `kind`."""
    trial_limits: LimitsWritten | None = None
    """Bounds of one trial; what a program left at its limit is graded as it stands."""
    judges: GraderEntries = None
    """Judges of every trial. A variant's list replaces the config's; an empty list turns them off."""
    metrics: list[JSONMap] | None = None
    """Further numbers to report."""
    expect_used: list[str] | None = None
    """Tools, skills or servers: a variant that never used them gets *cannot tell*."""


class VariantWritten(Setup):
    """A patch over the config: mappings merge key by key, lists and scalars replace."""

    name: Name
    """Unique in the config, ignoring case."""
    description: str | None = None
    """For readers of reports."""


class SharedConfig(Setup):
    """What a config may take over from another file by `extends`: everything but its name, cases and variants."""

    description: str | None = None
    """The question, for readers of reports."""
    trials: Positive = 1
    """How often each variant answers each case."""
    max_cases: Positive | None = None
    """Only the first n cases."""
    filter_tags: list[str] | None = None
    """Only cases with one of these tags."""
    concurrency: Positive = 4
    """Trials, or units of grading, at a time in one process."""
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    """How often a trial that the machine or mst broke, never the program, is made again at once; all are kept."""
    pass_threshold: Share = 1.0
    """A case passes when this share of its scored trials passed."""
    assertions: AssertionEntries = None
    """Deterministic graders of every trial: a list of single-key mappings, or one mapping."""
    pairwise_judges: GraderEntries = None
    """Judges that compare each candidate with the baseline, case by case."""
    secrets: list[SecretName] = []
    """Names that must have values. What graders and clients refer to need not be listed again."""
    rate_limits: RateLimitsWritten = RateLimitsWritten()
    """How fast providers and servers may be used."""
    budget: BudgetWritten = BudgetWritten()
    """Bounds of the whole run: `cost_usd`, `tokens`."""
    stage_timeouts: TimeoutsWritten = TimeoutsWritten()
    """Bounds of the stages around the program."""
    pricing: dict[str, PriceWritten] = {}
    """USD per million tokens by model: `input`, `output`, `cache_read`, `cache_write`."""
    redact_stored_responses: bool = False
    """Keep no answers; such a run cannot be graded again. Not available yet."""
    vary: list[str] | None = None
    """What variants may differ in, as dotted keys; by default the keys that variants set."""


class EvalConfig(SharedConfig):
    """One eval: what to evaluate and how. Never where it runs or where results go."""

    name: Name
    """Of the eval; its results are kept under it."""
    datasets: DatasetEntries
    """Paths of files or folders, `{file: path}`, `{dir: path}`, or a plugin's."""
    variants: list[VariantWritten] = []
    """None given: one variant called `default`."""
    baseline: str | None = None
    """The variant that others are compared with; the first one unless named."""
    plugins: list[str] = []
    """Namespaces of the plugins that this config uses."""
    extends: Annotated[list[str], BeforeValidator(_one_or_more)] = []
    """Files whose top-level keys this config takes over unless it has them itself; a later file wins."""


SETUP_KEYS = tuple(Setup.model_fields)
