"""The stages of one trial, in order: set up, client, export, clean up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mst.clients.contract import Client, ClientResult, TrialContext
from mst.clients.placeholders import render_prompt
from mst.collect.baseline import Baseline
from mst.collect.context import RunContext
from mst.collect.export import Export
from mst.collect.identity import Setting
from mst.collect.stages import StageFailed, Stages
from mst.collect.workspace import (
    Folders,
    export_and_diff,
    lay_solution,
    make_folders,
    prepare,
    run_commands,
)
from mst.errors import ClientError
from mst.model.case import Case, Variant
from mst.process.finishing import in_thread
from mst.process.removal import remove_tree
from mst.sandboxes import contract as sandboxes
from mst.sandboxes.contract import Enclosure
from mst.sandboxes.none import OpenEnclosure
from mst.sandboxes.open import open_sandbox

_OVERDUE_S = 60.0
"""A client keeps its own time limit; one that is this much over it is ended from outside."""


@dataclass(kw_only=True)
class Attempt:
    """What is known of a trial while it runs. `setting`: the parts of its identity that the variant's trials share."""

    case: Case
    variant: Variant
    trial: int
    client: Client
    setting: Setting
    context: RunContext
    stages: Stages = field(default_factory=Stages)
    prompt: str = ""
    folders: Folders | None = None
    enclosure: Enclosure | None = None
    baseline: Baseline | None = None
    result: ClientResult | None = None
    left: Export | None = None
    patch: str | None = None
    cleanup_fault: str | None = None

    async def run(self) -> None:
        """All stages up to the export, in order; the first that fails is the last."""
        try:
            with self.stages.stage("setup", "environment"):
                await self._set_up()
            with self.stages.stage("client", "harness"):
                self.result = await self._run_client()
            if self.baseline is not None:
                with self.stages.stage("export", "environment"):
                    await self._export(self.baseline)
        except StageFailed:
            return

    async def clean_up(self) -> None:
        """Teardown commands, then the folders. A fault is noted and changes nothing else."""
        if self.folders is None:
            return
        try:
            with self.stages.stage("cleanup", "environment"):
                fault = await self._tear_down()
                await self.leave()
                left = await self._remove_folders(self.folders)
                self.cleanup_fault = fault or left
        except StageFailed as failed:
            self.cleanup_fault = str(failed.__cause__)

    async def leave(self) -> None:
        """End the sandbox with everything in it. Safe to call twice."""
        if self.enclosure is not None:
            await self.enclosure.close()

    async def _set_up(self) -> None:
        self.prompt = render_prompt(self.variant.input_template, self.case.input)
        with_workspace = _needs_workspace(self.case, self.variant, self.client)
        if not with_workspace and self.client.needs == "nothing":
            return
        self.folders = make_folders(self.context.scratch_root, with_workspace=with_workspace)
        self.enclosure = self._enter(self.folders)
        if self.folders.workspace is None:
            return
        self.baseline = await prepare(
            self.case,
            self.variant,
            self.folders,
            self.enclosure,
            files=self.context.files,
            timeouts=self.context.timeouts,
            prompt=self.prompt,
        )
        if self.client.starts_from == "solution":
            await lay_solution(self.case, self.folders.workspace, self.context.files)

    def _enter(self, folders: Folders) -> Enclosure:
        sandbox = open_sandbox(self.variant.sandbox, f"variant {self.variant.name!r}")
        inside = sandboxes.Folders(workspace=folders.workspace, scratch=folders.scratch)
        return sandbox.enter(inside, image=self.case.image)

    async def _run_client(self) -> ClientResult:
        folders, given = self.folders, self.context
        context = TrialContext(
            variant=self.variant,
            trial=self.trial,
            prompt=self.prompt,
            scratch=given.scratch_root if folders is None else folders.scratch,
            secrets=_secrets_for(self.client, given.secrets),
            files=given.files,
            enclosure=self.enclosure or OpenEnclosure(sandboxes.Folders(workspace=None, scratch=given.scratch_root)),
            limits=given.limits,
            pricing=given.pricing,
        )
        workspace = None if folders is None else folders.workspace
        limit = self.variant.trial_limits.time_s + getattr(self.client, "waits_s", 0.0) + _OVERDUE_S
        clock = asyncio.timeout(limit)
        try:
            async with clock:
                return await self.client.run(self.case, workspace, context)
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise ClientError(
                f"the client did not keep its time limit and was ended after {limit:g} s", "harness"
            ) from error

    async def _export(self, baseline: Baseline) -> None:
        assert self.folders is not None
        assert self.folders.workspace is not None
        self.left, self.patch = await in_thread(
            export_and_diff,
            self.folders.workspace,
            artifact_folder(self.folders),
            limits=self.variant.trial_limits,
            baseline=baseline,
            redactor=self.context.redactor,
            timeout_s=self.context.timeouts.export_s,
        )

    async def _tear_down(self) -> str | None:
        if not self.case.teardown or self.baseline is None or self.folders is None or self.enclosure is None:
            return None
        try:
            await run_commands(
                self.case.teardown,
                self.case,
                self.folders,
                self.enclosure,
                what="teardown",
                timeout_s=self.context.timeouts.cleanup_s,
                prompt=self.prompt,
            )
        except ClientError as error:
            return str(error)
        return None

    async def _remove_folders(self, folders: Folders) -> str | None:
        work = asyncio.ensure_future(asyncio.to_thread(remove_tree, folders.root))
        limit = self.context.timeouts.cleanup_s
        await asyncio.wait({work}, timeout=limit)
        if not work.done():
            work.add_done_callback(_ignore)
            return f"the trial's folders were not deleted within {limit:g} s"
        error = work.exception()
        return None if error is None else f"the trial's folders could not be deleted: {error}"


def artifact_folder(folders: Folders) -> Path:
    """Beside the trial's folders, so that it outlives them; as unique as they are."""
    return folders.root.with_name(folders.root.name.replace("trial-", "artifacts-", 1))


def _needs_workspace(case: Case, variant: Variant, client: Client) -> bool:
    if case.fixture is not None or case.setup or variant.files or client.needs == "workspace":
        return True
    if any("command" in server for server in variant.servers.values()):
        return True  # where they run, and what they may leave files in
    return client.starts_from == "solution" and case.solution is not None


def _secrets_for(client: Client, secrets: Mapping[str, str]) -> dict[str, str]:
    needed = client.secrets_needed()
    absent = [name for name in needed if name not in secrets]
    if absent:
        raise ClientError(f"no value for the secret {', '.join(absent)}; declare it under `secrets` and pass it")
    return {name: secrets[name] for name in needed}


def _ignore(work: asyncio.Future[None]) -> None:
    if not work.cancelled():
        work.exception()
