"""Some of many values, as they are at the moment of asking: secrets change while a shard runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


class Some(Mapping[str, str]):
    """The values of some names only, read anew each time. Names without a value are not in it. Its repr shows none."""

    def __init__(self, values: Mapping[str, str], names: Sequence[str]) -> None:
        self._values = values
        self._names = tuple(dict.fromkeys(names))

    def __getitem__(self, name: str) -> str:
        """The value that the name has now."""
        if name not in self._names:
            raise KeyError(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """The names that have a value now, in the order given."""
        return (name for name in self._names if name in self._values)

    def __len__(self) -> int:
        """How many have a value now."""
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        """Names only."""
        return f"Some({', '.join(self)})"
