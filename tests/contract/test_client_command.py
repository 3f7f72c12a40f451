"""The command client under the contract, with real programs."""

from __future__ import annotations

from mst.clients.command import Command
from mst.model.case import Case, Variant
from mst.testing.client import ClientContract

HANG = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "300"])
subprocess.Popen(["sleep", "300"], start_new_session=True)
print("started", flush=True)
time.sleep(300)
"""


class TestCommand(ClientContract):
    OPTIONS = {"argv": ["cat"]}

    def variant(self, **changes):
        return Variant(name="v", client="command", client_options=self.OPTIONS, **changes)

    def make(self, variant):
        return Command(variant)

    def hanging(self):
        options = {"argv": ["{{python}}", "-c", HANG]}
        return Variant(name="v", client="command", client_options=options), Case(id="c", dataset="d")

    def with_secret(self):
        options = {"argv": ["sh", "-c", "echo $TOKEN"], "env": {"TOKEN": {"secret": "TOKEN"}}}
        return Variant(name="v", client="command", client_options=options)


class TestCommandWithArgument(TestCommand):
    OPTIONS = {"argv": ["echo"], "input": "arg"}


class TestCommandWithFile(TestCommand):
    OPTIONS = {"argv": ["cat"], "input": "file"}


class TestCommandWithPlaceholder(TestCommand):
    OPTIONS = {"argv": ["echo", "{{input}}"], "input": "none"}


class TestCommandInSteps(TestCommand):
    OPTIONS = {"steps": [["true"], ["cat"]]}
