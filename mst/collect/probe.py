"""One tiny live call for each distinct agent setting: key, model and program are shown to work before trials are paid.

A probe is an ordinary trial of a made-up case in an empty workspace, in the variant's own sandbox, through its own
client. What it costs is what one short answer costs; it is told, and no part of any result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mst.clients.contract import Client, Probed
from mst.collect.context import RunContext
from mst.collect.loop import client_of
from mst.collect.trial import collect_trial
from mst.config.files import FileSource
from mst.config.variants import variants_for
from mst.model.base import digest
from mst.model.case import Case, EvalPlan, StageTimeouts, Variant
from mst.model.transcript import Usage
from mst.model.trial import TrialRecord
from mst.process.redact import Redactor
from mst.process.together import together

LONGEST_S = 120.0
PROBE_RUN = "00000000T000000Z-000000"
_WORDS = 400


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An agent as some variants set it up, and the client that was made for the first of them."""

    variants: tuple[str, ...]
    variant: Variant
    client: Client
    prompt: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a probe brought. `fault` is None when the agent answered."""

    setting: Setting
    fault: str | None
    seconds: float
    usage: Usage | None


def settings_to_probe(plan: EvalPlan, cases: Iterable[Case]) -> list[Setting]:
    """The distinct settings of clients that can be probed, in the order of variants; cases may bring their own.

    Names, inputs and graders make no other setting: what matters is who is asked, with what.
    """
    found: dict[str, tuple[Variant, list[str]]] = {}
    own = (case for case in cases if case.client or case.model or case.client_options)
    for variant in (*plan.variants, *(variant for case in own for variant in variants_for(plan, case))):
        _variant, names = found.setdefault(_setting_key(variant), (variant, []))
        if variant.name not in names:
            names.append(variant.name)
    made = [(variant, names, client_of(variant)) for variant, names in found.values()]
    return [
        Setting(variants=tuple(names), variant=variant, client=client, prompt=client.probe_input)
        for variant, names, client in made
        if isinstance(client, Probed)
    ]


async def probe_all(
    settings: Iterable[Setting],
    *,
    files: FileSource,
    secrets: Mapping[str, str],
    timeouts: StageTimeouts,
    scratch_root: Path,
    pricing: Mapping[str, Any] | None = None,
) -> list[Answer]:
    """Ask every agent once, all at the same time. Never raises for what goes wrong in a probe; nothing is kept."""
    context = RunContext(
        run_id=PROBE_RUN,
        files=files,
        secrets=secrets,
        redactor=Redactor(secrets.values()),
        scratch_root=scratch_root,
        timeouts=timeouts,
        pricing=pricing or {},
    )
    return await together(_probe(one, context) for one in settings)


async def _probe(setting: Setting, context: RunContext) -> Answer:
    limits = setting.variant.trial_limits
    short = limits.model_copy(update={"time_s": min(limits.time_s, LONGEST_S)})
    try:
        collected = await collect_trial(
            Case(id="probe", dataset="probe", input=setting.prompt),
            setting.variant.model_copy(update={"trial_limits": short, "input_template": None}),
            0,
            client=setting.client,
            context=context,
        )
        collected.discard()
    finally:
        await setting.client.close()
    record = collected.record
    usage = record.client_usage or (record.transcript.usage if record.transcript is not None else None)
    return Answer(setting=setting, fault=_fault(record), seconds=record.duration_ms / 1000, usage=usage)


def _fault(record: TrialRecord) -> str | None:
    """Why the agent did not answer, in its own words as far as there are any."""
    transcript = record.transcript
    said = transcript.error if transcript is not None else None
    if record.status == "completed" and record.limit_hit is None and not (said and not transcript.final_text):  # type: ignore[union-attr]  # said implies a transcript
        return None
    words = [record.error or f"ended at its limit of {record.limit_hit}" if record.limit_hit else record.error, said]
    stderr = str((record.client_diagnostics or {}).get("stderr") or "").strip()
    told = [word for word in dict.fromkeys([*words, stderr[-_WORDS:]]) if word]
    return " ".join("; ".join(told).split())[: 2 * _WORDS] or "it gave no answer"


def _setting_key(variant: Variant) -> str:
    return digest(
        {
            "client": variant.client,
            "options": variant.client_options,
            "model": variant.model,
            "servers": variant.servers,
            "tools": variant.tools,
            "env": variant.env,
            "sandbox": variant.sandbox,
        }
    )
