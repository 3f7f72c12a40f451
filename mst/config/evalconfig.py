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
    cost_usd: Annotated[float, Field(gt=0)] | None = None
    tokens: Positive | None = None
    turns: Positive | None = None
    output_bytes: Positive | None = None
    artifact_bytes: Positive | None = None
    artifact_files: Positive | None = None


class TimeoutsWritten(Written):
    """Bounds of the stages around the program under test, and of one grader."""

    setup_s: Seconds | None = None
    export_s: Seconds | None = None
    score_s: Seconds | None = None
    cleanup_s: Seconds | None = None


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
    memory: str | None = None
    cpus: Annotated[float, Field(gt=0)] | None = None


class Setup(Written):
    """What a variant may set. In the config itself the same keys are what every variant starts from."""

    client: str | None = None
    """How the program under test is driven; `mst plugins` lists the clients."""
    client_options: JSONMap | None = None
    """Options of the client; its own schema checks them."""
    servers: Annotated[Any, WithJsonSchema(SERVERS_SCHEMA)] = None
    """MCP servers by label: `{command, args, env, cwd}` or `{url, headers}`. A variant may also list labels."""
    model: str | None = None
    input_template: str | None = None
    """The prompt; `{{input}}` stands for the case's input."""
    tools: JSONMap | None = None
    env: dict[str, Annotated[str | JSONMap, BeforeValidator(_value_or_secret)]] | None = None
    """Environment of the program: `NAME: value`, or `NAME: {secret: NAME}`."""
    files: str | None = None
    """A folder that is laid over every case's files."""
    sandbox: Annotated[SandboxWritten, BeforeValidator(_by_kind)] | None = None
    trial_limits: LimitsWritten | None = None
    judges: GraderEntries = None
    metrics: list[JSONMap] | None = None
    expect_used: list[str] | None = None
    """Tools, skills or servers: a variant that never used them gets *cannot tell*."""


class VariantWritten(Setup):
    """A patch over the config: mappings merge key by key, lists and scalars replace."""

    name: Name
    description: str | None = None


class SharedConfig(Setup):
    """What a config may take over from another file by `extends`: everything but its name, cases and variants."""

    description: str | None = None
    trials: Positive = 1
    max_cases: Positive | None = None
    """Only the first n cases."""
    filter_tags: list[str] | None = None
    """Only cases with one of these tags."""
    concurrency: Positive = 4
    pass_threshold: Share = 1.0
    """A case passes when this share of its scored trials passed."""
    assertions: AssertionEntries = None
    pairwise_judges: GraderEntries = None
    secrets: list[SecretName] = []
    """Names that must have values."""
    rate_limits: RateLimitsWritten = RateLimitsWritten()
    budget: BudgetWritten = BudgetWritten()
    stage_timeouts: TimeoutsWritten = TimeoutsWritten()
    pricing: dict[str, PriceWritten] = {}
    redact_stored_responses: bool = False
    vary: list[str] | None = None
    """What variants may differ in, as dotted keys; by default the keys that variants set."""


class EvalConfig(SharedConfig):
    """One eval: what to evaluate and how. Never where it runs or where results go."""

    name: Name
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
