"""Limits as providers of models keep them, told the time by whoever asks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class RateRule:
    """A provider's limit as providers keep it: a bucket that fills evenly. Not thread-safe by itself.

    Attributes:
        per_minute: requests, or tokens.
        burst: how many may come at once.
    """

    per_minute: float
    burst: float
    _level: float = field(init=False)
    _at: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._level = self.burst

    def take(self, amount: float, now: float) -> float:
        """Take from the bucket; 0, or how many seconds to wait when there is not enough."""
        elapsed = 0.0 if self._at is None else now - self._at
        self._at = now
        self._level = min(self.burst, self._level + elapsed * self.per_minute / 60)
        if self._level >= amount:
            self._level -= amount
            return 0.0
        return (amount - self._level) * 60 / self.per_minute


@dataclass
class WindowRule:
    """A provider's limit counted over a window. Not thread-safe by itself.

    Attributes:
        per_window: requests that may come in one.
        window_s: its length.
        sliding: any time of that length; else one begins with the first request, and one after the other from then.
    """

    per_window: int
    window_s: float = 60.0
    sliding: bool = True
    _came: deque[float] = field(default_factory=deque, init=False)
    _began: float | None = field(default=None, init=False)

    def take(self, amount: float, now: float) -> float:
        """Count a request; 0, or how many seconds to wait when there were enough. Refused ones are not counted."""
        self._began = now if self._began is None else self._began
        began = now - self.window_s if self.sliding else now - (now - self._began) % self.window_s
        while self._came and self._came[0] < began:
            self._came.popleft()
        if len(self._came) < self.per_window:
            self._came.append(now)
            return 0.0
        return max(0.001, (self._came[0] if self.sliding else began) + self.window_s - now)


@dataclass(frozen=True)
class AllRules:
    """Several limits at once. A request that one refuses is counted by the others all the same, to be strict."""

    rules: Sequence[RateRule | WindowRule]

    def take(self, amount: float, now: float) -> float:
        """Ask every rule; the longest wait."""
        return max(rule.take(amount, now) for rule in self.rules)
