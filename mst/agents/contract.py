"""What is known of a coding agent: how it is started, and how what it tells is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mst.model.case import TrialLimits
from mst.model.transcript import Transcript
from mst.model.trial import LimitHit


@dataclass(frozen=True, kw_only=True)
class StdioServer:
    """An MCP server with its environment filled in."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Given:
    """What an agent is given.

    Attributes:
        url: of the model's API, without a path at its end that the agent adds itself.
        key: what the agent sends: the proxy's token, or the key.
        home: as the agent sees it.
        servers: by label.
        answer: a JSON Schema of the answer; agents that can, are held to it.
        reads_only: it needs no tool that writes or runs something; those that can, are given none.
    """

    prompt: str
    model: str | None
    url: str
    key: str = field(repr=False)
    home: Path
    servers: Mapping[str, StdioServer] = field(default_factory=dict)
    limits: TrialLimits
    answer: Mapping[str, Any] | None = None
    reads_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to start the agent.

    Attributes:
        files: by path below its home; readable by this user alone.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    stdin: bytes | None = None

    def write_files(self, home: Path) -> None:
        """Put its files into a home on this machine."""
        for name, text in self.files.items():
            place = home / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch(mode=0o600)
            place.write_text(text, encoding="utf-8")


class Agent(ABC):
    """One agent.

    Class attributes:
        PROGRAM: its usual name.
        KEY: the usual name of the secret that holds its provider's key.
        URL: its provider's.
        PROVIDER: the name of that provider in `rate_limits`.
        LAST_WORDS: what it must be told besides, so that what it says last is kept.
        NEEDS_MODEL, TAKES_SERVERS: whether a model must be named, and whether it uses MCP servers.
    """

    PROGRAM: ClassVar[str]
    KEY: ClassVar[str]
    URL: ClassVar[str]
    PROVIDER: ClassVar[str]
    LAST_WORDS: ClassVar[str] = ""
    NEEDS_MODEL: ClassVar[bool] = False
    TAKES_SERVERS: ClassVar[bool] = True

    @abstractmethod
    def plan(self, given: Given) -> Plan:
        """Arguments, environment and settings files."""

    @abstractmethod
    def read(self, output: bytes, home: Path, limit_bytes: int) -> tuple[Transcript, int]:
        """What it told, as a transcript, and how many lines of it could not be used. Never raises for what it says.

        Args:
            output: of its standard output, possibly cut.
            home: on this machine; files in it were written by the agent, so they are opened with care.
            limit_bytes: of such a file.
        """

    def own_limit(self, transcript: Transcript) -> LimitHit | None:
        """The limit that the agent itself says ended it, where its usage does not show it."""
        return None
