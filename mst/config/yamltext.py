"""YAML as plain data: no tags that make objects, no bombs of aliases, YAML 1.2's idea of what is a number."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from mst.errors import ConfigError

Keys = tuple[str | int, ...]

TAG = "tag:yaml.org,2002:"
MAX_ALIASED_NODES = 100_000
INTEGER = re.compile(r"[-+]?[0-9]{1,4000}")
HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,3000}")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF|nan|NaN|NAN)")
PROBLEMS = {
    "mapping values are not allowed": "a ': ' stands where none may: put a text that holds one in quotes, or look at "
    "the indentation",
    "did not find expected key": "a key is missing, a quote ends too early, or this is indented otherwise than what it "
    "belongs with",
    "did not find expected node content": "a value or a closing bracket is missing before this",
    "did not find expected ',' or": "a comma or a closing bracket is missing before this",
    "could not find expected ':'": "a key without its ': ' is here or on the line before",
    "did not find expected <document start>": "this is indented otherwise than what stands before it",
    "did not find expected '-' indicator": "this is indented otherwise than the list that it belongs to",
    "unexpected end of stream": "a quote is not closed",
    "found character that cannot start any token": "a text that begins with this character must be in quotes",
    "found undefined alias": "a text that begins with * must be in quotes",
    "found unknown escape character": "in double quotes a backslash is special: write two, or use single quotes",
}
"""What YAML's parser says, in part, and what that means to whoever wrote the text."""


def read(text: str, name: str, *, max_depth: int) -> tuple[Any, dict[Keys, tuple[int, int]], list[str]]:
    """Data, places and faults of a YAML text.

    `yes`, `no`, `on`, `off`, `1:30` and dates stay texts, and `010` is ten, as in YAML 1.2: a case whose answer is
    "no" must not turn into false.

    Raises:
        ConfigError: bad syntax, several documents, or characters that YAML forbids.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        node = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        raise ConfigError(f"{place}: not valid YAML: {_problem(error, text)}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested more than {max_depth} levels deep") from None
    walk = _Walk(name=name, max_depth=max_depth)
    return (None if node is None else walk.value(node, ())), walk.marks, walk.faults


def _problem(error: yaml.MarkedYAMLError, text: str) -> str:
    """What is wrong, in words that say what to do for the commonest slip."""
    mark = error.problem_mark
    rest = "" if mark is None else "".join(text.splitlines()[mark.line : mark.line + 1])[mark.column :]
    if rest.startswith("\t"):
        return "a tab stands where only spaces may: indent with spaces"
    problem = str(error.problem or error.context)
    return next((said for part, said in PROBLEMS.items() if part in problem), problem)


@dataclass
class _Walk:
    name: str
    max_depth: int
    marks: dict[Keys, tuple[int, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    open: set[int] = field(default_factory=set)
    aliased: int = 0

    def value(self, node: yaml.Node, keys: Keys) -> Any:
        self.marks.setdefault(keys, (node.start_mark.line + 1, node.start_mark.column + 1))
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        if not self.may_enter(node, keys):
            return None
        self.open.add(id(node))
        result = self.mapping(node, keys) if isinstance(node, yaml.MappingNode) else self.sequence(node, keys)
        self.open.discard(id(node))
        return result

    def may_enter(self, node: yaml.Node, keys: Keys) -> bool:
        if id(node) in self.open:
            return self.refuse(node, "an alias refers to a part that it stands in")
        if id(node) in self.seen:
            self.aliased += len(node.value) + 1
        self.seen.add(id(node))
        if self.aliased > MAX_ALIASED_NODES:
            if not any("aliases expand" in fault for fault in self.faults):
                self.refuse(node, f"aliases expand to more than {MAX_ALIASED_NODES} parts")
            return False
        if len(keys) > self.max_depth:
            return self.refuse(node, f"nested more than {self.max_depth} levels deep")
        return True

    def refuse(self, node: yaml.Node, message: str) -> bool:
        self.faults.append(f"{self.name}:{node.start_mark.line + 1}: {message}")
        return False

    def sequence(self, node: yaml.Node, keys: Keys) -> list[Any]:
        if node.tag != TAG + "seq":
            self.refuse(node, f"tag {node.tag!r} is not supported")
        return [self.value(item, (*keys, index)) for index, item in enumerate(node.value)]

    def mapping(self, node: yaml.Node, keys: Keys) -> dict[str, Any]:
        if node.tag != TAG + "map":
            self.refuse(node, f"tag {node.tag!r} is not supported")
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == TAG + "merge":
                self.merge(merged, value_node, keys)
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self.refuse(key_node, "a key must be a text")
                continue
            key = str(key_node.value)
            if key in result:
                self.refuse(key_node, f"key {key!r} is given twice")
            self.marks.setdefault((*keys, key), (key_node.start_mark.line + 1, key_node.start_mark.column + 1))
            result[key] = self.value(value_node, (*keys, key))
        return {**merged, **result}

    def merge(self, into: dict[str, Any], node: yaml.Node, keys: Keys) -> None:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for part in parts:
            if not isinstance(part, yaml.MappingNode):
                self.refuse(part, "'<<' takes a mapping or a list of mappings")
                continue
            for key, value in (self.value(part, keys) or {}).items():
                into.setdefault(key, value)

    def scalar(self, node: yaml.ScalarNode) -> Any:
        text, tag = node.value, node.tag.removeprefix(TAG)
        if tag in {"str", "timestamp"}:
            return text
        if tag == "null":
            return None
        if tag == "bool":
            return {"true": True, "false": False}.get(text.lower(), text)
        if tag == "int":
            return self.integer(text)
        if tag == "float":
            return self.number(node, text)
        self.refuse(node, f"tag {node.tag!r} is not supported")
        return None

    def integer(self, text: str) -> int | str:
        if INTEGER.fullmatch(text):
            return int(text)
        return int(text, 16) if HEXADECIMAL.fullmatch(text) else text

    def number(self, node: yaml.Node, text: str) -> float | str | None:
        if SPECIAL.fullmatch(text):
            self.refuse(node, "infinities and NaN are not supported")
            return None
        return float(text) if FLOAT.fullmatch(text) else text
