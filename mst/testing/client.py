"""What every client must do: subclass `ClientContract` in your tests and say how to make yours.

class TestMine(ClientContract):
    def variant(self, **changes): return Variant(name="v", client="acme/client/mine", **changes)
    def make(self, variant): return Mine(variant)
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import psutil
import pytest

from mst.clients.contract import Client, ClientResult, TrialContext
from mst.clients.placeholders import render_prompt
from mst.collect.context import RunContext
from mst.collect.trial import collect_trial
from mst.config.files import FileSource, IndexedFiles
from mst.errors import ConfigError
from mst.model.base import Model
from mst.model.case import Case, StageTimeouts, TrialLimits, Variant
from mst.model.transcript import Transcript
from mst.model.trial import TrialRecord
from mst.process.redact import Redactor
from mst.sandboxes.contract import Folders
from mst.sandboxes.open import open_sandbox

SECRET_VALUE = "s3cr3t-value-0123456789"
_PATIENCE_S = 30.0
FAMILY = uuid.uuid4().hex
"""In the environment of what hangs: orphans of this test process are told from those of others by it."""
T = TypeVar("T")


class ClientContract:
    """Tests that every client passes. Override what stands first; `None` from `hanging` skips what needs a hang."""

    INPUT: ClassVar[Any] = "hello"

    def variant(self, **changes: Any) -> Variant:
        """A variant whose program answers its input at once."""
        raise NotImplementedError

    def make(self, variant: Variant) -> Client:
        """The client under test."""
        raise NotImplementedError

    def case(self, number: int = 0) -> Case:
        """A case; cases of different numbers must be answered differently if inputs matter to the client."""
        return Case(id=f"case-{number}", dataset="contract", input=self.numbered(number))

    def numbered(self, number: int) -> Any:
        """An input that tells its number."""
        return f"{self.INPUT} {number}" if isinstance(self.INPUT, str) else {**self.INPUT, "number": number}

    def expected(self, number: int) -> str | None:
        """The final text that `case(number)` gets; None when the client's answer is not a matter of its input."""
        return f"{self.INPUT} {number}"

    def hanging(self) -> tuple[Variant, Case] | None:
        """A variant and a case on which the program hangs, having started a child that hangs as well."""
        return None

    def with_secret(self) -> Variant | None:
        """A variant whose program needs the secret `TOKEN` and prints it; None when there are no secrets."""
        return None

    def secret_case(self) -> Case:
        """The case on which `with_secret` prints its secret."""
        return self.case()

    # What follows are the tests.

    def test_it_says_what_it_is(self) -> None:
        client = self.make(self.variant())
        assert issubclass(client.Options, Model)
        assert client.evidence in {"structured", "observed", "none"}
        assert client.starts_from in {"fixture", "solution"}
        assert client.needs in {"nothing", "scratch", "workspace"}

    def test_an_unknown_option_is_refused_by_name(self) -> None:
        variant = self.variant()
        options = {**variant.client_options, "no_such_option": 1}
        with pytest.raises(ConfigError, match="no_such_option"):
            self.make(variant.model_copy(update={"client_options": options}))

    def test_preflight_finds_nothing_wrong_and_starts_nothing(self) -> None:
        client = self.make(self.variant())
        before = descendants()
        assert client.preflight() == []
        assert descendants() <= before

    def test_it_answers(self, tmp_path: Path) -> None:
        result = self._run(tmp_path, self.variant(), self.case(7))
        assert result.error is None, result
        assert result.limit_hit is None
        if self.expected(7) is not None:
            assert result.transcript.final_text == self.expected(7)

    def test_its_result_is_plain_data(self, tmp_path: Path) -> None:
        result = self._run(tmp_path, self.variant(), self.case())
        stored = result.transcript.to_json()
        assert Transcript.model_validate_json(stored) == result.transcript
        json.dumps([result.metadata, result.telemetry, result.diagnostics])

    def test_trials_at_once_do_not_mix(self, tmp_path: Path) -> None:
        async def scene(client: Client) -> list[ClientResult]:
            runs = [one_run(client, self.case(n), self.variant(), tmp_path / str(n), trial=n) for n in range(4)]
            return await asyncio.gather(*runs)

        results = self._with(self.variant(), scene)
        for number, result in enumerate(results):
            assert result.error is None
            if self.expected(number) is not None:
                assert result.transcript.final_text == self.expected(number)

    def test_nothing_is_left_running(self, tmp_path: Path) -> None:
        before = descendants()
        self._run(tmp_path, self.variant(), self.case())
        wait_for_no_more_than(before)

    def test_it_closes_twice_and_unused(self) -> None:
        async def scene(client: Client) -> None:
            await client.close()
            await client.close()

        self._with(self.variant(), scene)

    def test_at_its_time_limit_what_runs_is_ended_and_said(self, tmp_path: Path) -> None:
        variant, case = self._hanging()
        variant = variant.model_copy(update={"trial_limits": TrialLimits(time_s=1.5)})
        before = descendants()
        started = time.monotonic()
        result = self._run(tmp_path, variant, case)
        assert result.limit_hit == "timeout"
        assert result.error_kind is None, "a time limit is no error: what the program left is graded"
        assert result.transcript.error is not None
        assert time.monotonic() - started < _PATIENCE_S
        wait_for_no_more_than(before)

    def test_cancellation_ends_everything_that_was_started(self, tmp_path: Path) -> None:
        variant, case = self._hanging()
        before = descendants()

        async def scene(client: Client) -> None:
            task = asyncio.ensure_future(one_run(client, case, variant, tmp_path))
            deadline = time.monotonic() + _PATIENCE_S
            while len(descendants() - before) < 2 and time.monotonic() < deadline:  # noqa: ASYNC110 - of other processes
                await asyncio.sleep(0.01)
            assert not task.done(), task
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        self._with(variant, scene)
        wait_for_no_more_than(before)

    def test_a_secret_reaches_the_program_and_is_named_beforehand(self, tmp_path: Path) -> None:
        variant = self.with_secret()
        if variant is None:
            pytest.skip("this client takes no secrets")
        client = self.make(variant)
        assert client.secrets_needed() == ["TOKEN"]
        result = self._run(tmp_path, variant, self.secret_case(), secrets={"TOKEN": SECRET_VALUE})
        assert SECRET_VALUE in result.transcript.to_json().decode()
        assert SECRET_VALUE not in repr(client)

    def _hanging(self) -> tuple[Variant, Case]:
        found = self.hanging()
        if found is None:
            pytest.skip("this client starts nothing that could hang")
        variant, case = found
        return variant.model_copy(update={"env": {**variant.env, "MST_TEST_FAMILY": FAMILY}}), case

    def _run(self, folder: Path, variant: Variant, case: Case, secrets: dict[str, str] | None = None) -> ClientResult:
        async def scene(client: Client) -> ClientResult:
            return await one_run(client, case, variant, folder, secrets=secrets)

        return self._with(variant, scene)

    def _with(self, variant: Variant, scene: Callable[[Client], Awaitable[T]]) -> T:
        async def whole() -> T:
            client = self.make(variant)
            try:
                return await asyncio.wait_for(scene(client), 3 * _PATIENCE_S)
            finally:
                await client.close()

        return asyncio.run(whole())


async def one_run(
    client: Client,
    case: Case,
    variant: Variant,
    folder: Path,
    *,
    trial: int = 0,
    secrets: dict[str, str] | None = None,
    files: IndexedFiles | None = None,
) -> ClientResult:
    """Run a client on a case in fresh folders, as collecting does."""
    workspace, scratch = folder / "workspace", folder / "scratch"
    workspace.mkdir(parents=True)
    scratch.mkdir(mode=0o700)
    sandbox = open_sandbox(variant.sandbox, "the variant")
    enclosure = sandbox.enter(Folders(workspace=workspace, scratch=scratch))
    context = TrialContext(
        variant=variant,
        trial=trial,
        prompt=render_prompt(variant.input_template, case.input),
        scratch=scratch,
        secrets=secrets or {},
        files=files or IndexedFiles(),
        enclosure=enclosure,
    )
    try:
        return await client.run(case, workspace, context)
    finally:
        await enclosure.close()


def trial_records(
    make: Callable[[Variant], Client],
    variant: Variant,
    cases: Sequence[Case],
    folder: Path,
    *,
    trial: int = 0,
    secrets: Mapping[str, str] | None = None,
    files: FileSource | None = None,
    between: Callable[[int], None] = lambda _number: None,
    at_once: bool = False,
    **more: Any,
) -> list[TrialRecord]:
    """The records of a trial of each case, through one client, as collecting makes them; artifacts are deleted.

    Args:
        make: the client of a variant.
        folder: where workspaces are made.
        between: told the number of each case before its trial.
        at_once: all trials at the same time.
        more: of the run's context, as `limits` and `pricing`.
    """

    async def one(client: Client, case: Case, number: int) -> TrialRecord:
        between(number)
        context = RunContext(
            run_id="r",
            files=files or IndexedFiles(),
            secrets=secrets or {},
            redactor=Redactor((secrets or {}).values()),
            scratch_root=folder,
            timeouts=StageTimeouts(),
            **more,
        )
        collected = await collect_trial(case, variant, trial, client=client, context=context)
        collected.discard()
        return collected.record

    async def scene() -> list[TrialRecord]:
        client = make(variant)
        trials = [one(client, case, number) for number, case in enumerate(cases)]
        try:
            return list(await asyncio.gather(*trials)) if at_once else [await trial for trial in trials]
        finally:
            await client.close()

    return asyncio.run(scene())


def descendants() -> set[int]:
    """Process IDs of everything alive that this process started, and of what those started.

    A program that was orphaned has another parent, but still the variable that it inherited.
    """
    me = psutil.Process()
    alive = {process.pid for process in me.children(recursive=True) if _is_alive(process)}
    return alive | {process.pid for process in psutil.process_iter() if _is_orphan_of_ours(process)}


def wait_for_no_more_than(before: set[int], within_s: float = 10.0) -> None:
    """Until no process is alive that was not before; fails with what is left."""
    deadline = time.monotonic() + within_s
    while (left := descendants() - before) and time.monotonic() < deadline:
        gone = [psutil.Process(pid) for pid in left if psutil.pid_exists(pid)]
        psutil.wait_procs(gone, timeout=0.05)
    assert not left, f"still running: {left}"


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _is_orphan_of_ours(process: psutil.Process) -> bool:
    try:
        family: str | None = process.environ().get("MST_TEST_FAMILY")
        return family == FAMILY and _is_alive(process)
    except (psutil.Error, OSError):
        return False
