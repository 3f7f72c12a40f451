"""Keys of the reference's eval configs: mapped where they have a place here, ignored with a warning, or refused."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic.alias_generators import to_snake

from mst.config.source import Keys, Source
from mst.errors import ConfigError

IGNORED = {
    "cowork_setup": "it prepares a desktop application",
    "simulate_writes": "writes are what the program under test makes of them",
    "require_eval_endpoint": "endpoints are not told apart",
    "results": "where results go is said by --results and --output-dir",
}
REFUSED = {
    "tool_map": "tools keep the names that their servers give them; list the names of both in tools_triggered",
}
TO_CLIENT_OPTIONS = ("max_tokens", "temperature", "max_tool_calls", "provider")
RUN_KEYS = ("trials", "max_cases", "concurrency", "filter_tags", "pass_threshold")
DESKTOP_CLIENTS = frozenset({"cowork", "chatgpt"})


def translate(source: Source) -> tuple[Source, list[str]]:
    """The config with the reference's keys in their places here, and warnings about those that mean nothing here.

    Raises:
        ConfigError: something that is out of scope, by name; or a setting that is given in two places.
    """
    if not isinstance(source.data, dict):
        return source, []
    work = _Translation(source)
    work.ignore()
    work.run()
    work.timeout()
    for name in TO_CLIENT_OPTIONS:
        work.move(name, ("client_options", name))
    work.limits()
    work.refuse()
    if work.faults:
        raise ConfigError(*work.faults)
    return dataclasses.replace(source, data=work.data, marks=work.marks), work.warnings


class _Translation:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.data: dict[str, Any] = dict(source.data)
        self.marks = dict(source.marks)
        self.faults: list[str] = []
        self.warnings: list[str] = []

    def key(self, name: str, within: dict[str, Any] | None = None) -> str | None:
        """The key as written, in either spelling."""
        data = self.data if within is None else within
        return next((key for key in data if to_snake(key) == name), None)

    def ignore(self) -> None:
        self.data.pop("$schema", None)
        for name, why in IGNORED.items():
            if (key := self.key(name)) is not None:
                del self.data[key]
                self.warnings.append(f"{self.source.place((key,))}: {key!r} is ignored: {why}")
        for name, why in REFUSED.items():
            if (key := self.key(name)) is not None:
                del self.data[key]
                self.faults.append(f"{self.source.place((key,))}: {key!r} is not supported: {why}")

    def run(self) -> None:
        run = self.data.get("run")
        if not isinstance(run, dict):
            return
        for name in RUN_KEYS:
            if (key := self.key(name, run)) is not None:
                self.put((name,), run[key], ("run", key))
        rest = [key for key in run if to_snake(key) not in RUN_KEYS]
        self.faults += [f"{self.source.place(('run', key))}: unknown key 'run.{key}'" for key in rest]
        del self.data["run"]

    def timeout(self) -> None:
        if (key := self.key("timeout")) is None:
            return
        value = self.data.pop(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            self.faults.append(f"{self.source.place((key,))}: {key}: should be a positive number of milliseconds")
        else:
            self.put(("trial_limits", "time_s"), value / 1000, (key,))

    def move(self, name: str, to: tuple[str, str]) -> None:
        if (key := self.key(name)) is not None:
            self.put(to, self.data.pop(key), (key,))

    def limits(self) -> None:
        if (key := self.key("limits")) is None:
            return
        value = self.data.pop(key)
        if isinstance(value, dict):
            value = {
                part: {name: {"concurrent": n} for name, n in entries.items()} if isinstance(entries, dict) else entries
                for part, entries in value.items()
            }
        self.put(("rate_limits",), value, (key,))

    def refuse(self) -> None:
        setups: list[tuple[Keys, Any]] = [((), self.data)]
        variants = self.data.get("variants")
        if isinstance(variants, list):
            setups += [(("variants", index), variant) for index, variant in enumerate(variants)]
        for keys, setup in setups:
            if isinstance(setup, dict):
                self.refuse_in(setup, keys)

    def refuse_in(self, setup: dict[str, Any], keys: Keys) -> None:
        client = setup.get("client")
        if isinstance(client, str) and client in DESKTOP_CLIENTS:
            place = self.source.place((*keys, "client"))
            self.faults.append(f"{place}: client {client!r} drives a desktop application, which is out of scope")
        servers = setup.get("servers")
        for label, server in servers.items() if isinstance(servers, dict) else ():
            if isinstance(server, dict) and "connector" in server:
                place = self.source.place((*keys, "servers", label))
                self.faults.append(
                    f"{place}: server {label!r} is a connector, which is out of scope; give its 'url' and 'headers' "
                    "with the token as {secret: NAME}"
                )

    def put(self, to: tuple[str, ...], value: Any, origin: Keys) -> None:
        """Give a value its place here, unless the place is taken."""
        *parents, last = to
        holder = self.data
        for parent in parents:
            key = self.key(parent, holder) or parent
            inner = holder.get(key)
            if inner is not None and not isinstance(inner, dict):
                return  # the schema will say what is wrong with it
            holder[key] = inner = dict(inner or {})
            holder = inner
        if self.key(last, holder) is not None:
            where = ".".join(to)
            self.faults.append(
                f"{self.source.place(origin)}: {'.'.join(map(str, origin))!r} and {where!r} are both given"
            )
            return
        holder[last] = value
        line = self.marks.get(tuple(to_snake(part) if isinstance(part, str) else part for part in origin))
        if line is not None:
            self.marks[to] = line
