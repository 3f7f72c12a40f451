"""How numbers are written, the same everywhere. A number that is not known is written `-`, never 0."""

from __future__ import annotations

from mst.model.numbers import Rate
from mst.model.transcript import Usage

UNKNOWN = "-"


def percent(rate: float | None) -> str:
    """A share of 1 as per cent with one decimal."""
    return UNKNOWN if rate is None else f"{rate * 100:.1f}%"


def percent_interval(rate: Rate | None) -> str:
    """An interval of shares, in per cent, or nothing."""
    return "" if rate is None else f"[{rate.lower * 100:.1f}, {rate.upper * 100:.1f}]"


def points(difference: float | None) -> str:
    """A difference of two shares in percentage points, with its sign."""
    return UNKNOWN if difference is None else f"{_signless_zero(difference * 100):+.1f} points"


def points_interval(rate: Rate | None, level: float) -> str:
    """An interval of a difference in percentage points, with its level, or nothing."""
    if rate is None:
        return ""
    return f"[{rate.lower * 100:+.1f}, {rate.upper * 100:+.1f}] at {level * 100:.4g}%"


def p_value(p: float | None) -> str:
    """A p-value: two decimals when it is large, four when it is small, never a bare 0."""
    if p is None:
        return f"p {UNKNOWN}"
    if p < 0.0001:
        return "p < 0.0001"
    return f"p {p:.2f}" if p >= 0.1 else f"p {p:.4f}"


def money(usd: float | None) -> str:
    """Dollars, with cents, or with four decimals below one dollar."""
    if usd is None:
        return UNKNOWN
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"


def cost(usage: Usage | None) -> str:
    """What usage cost: as the provider said it, else estimated from prices and marked with `~`."""
    if usage is None:
        return UNKNOWN
    if usage.total_cost_usd is not None:
        return money(usage.total_cost_usd)
    return UNKNOWN if usage.estimated_cost_usd is None else f"~{money(usage.estimated_cost_usd)}"


def seconds(duration_s: float | None) -> str:
    """A duration in the unit that reads best."""
    if duration_s is None:
        return UNKNOWN
    if duration_s < 1:
        return f"{duration_s * 1000:.0f} ms"
    if duration_s < 120:
        return f"{duration_s:.1f} s"
    minutes, rest_s = divmod(round(duration_s), 60)
    return f"{minutes} min {rest_s:02d} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def span(duration_s: float) -> str:
    """A time that a person reads at a glance: coarser the longer it is."""
    whole = round(duration_s)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    hours = whole // 3600
    return f"{hours} h {whole % 3600 // 60} min" if hours < 48 else f"{hours // 24} days {hours % 24} h"


def size(count_bytes: int) -> str:
    """A file size."""
    if count_bytes < 1024:
        return f"{count_bytes} B"
    if count_bytes < 1024**2:
        return f"{count_bytes / 1024:.1f} KB"
    return f"{count_bytes / 1024**2:.1f} MB"


def metric(value: float | None) -> str:
    """A metric of unknown unit: four significant digits."""
    return UNKNOWN if value is None else f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: `1 case`, `2 cases`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _signless_zero(value: float) -> float:
    return 0.0 if abs(value) < 0.05 else value
