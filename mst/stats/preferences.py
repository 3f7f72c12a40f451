"""Pairwise judges: who wins, and does the judge look at the answers or at their order?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from mst.stats.intervals import Interval, cluster_se, wilson
from mst.stats.special import coin_two_sided_p

Slot = Literal["first", "second", "tie"]
Preference = Literal["baseline", "candidate", "tie"]
Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, slots=True)
class WinRate:
    """The candidate's record over cases.

    Attributes:
        n: cases with a preference.
        win_rate: share won with ties as half; None without cases.
        win_rate_decisive: share won of the cases that were not ties; None when all were.
        net_preference: (wins - losses) / n.
        se: standard error of `win_rate` between cases; None with fewer than two.
        p_sign: two-sided exact sign test on the decisive cases; 1 when there is none.
        interval_decisive: Wilson's, of `win_rate_decisive`.
    """

    wins: int
    losses: int
    ties: int
    n: int
    win_rate: float | None
    win_rate_decisive: float | None
    net_preference: float | None
    se: float | None
    p_sign: float
    interval_decisive: Interval

    @property
    def decisive(self) -> int:
        """Cases that were won or lost."""
        return self.wins + self.losses


@dataclass(frozen=True, slots=True)
class PositionBias:
    """How a judge that saw each pair in both orders used the two slots.

    Attributes:
        pairs: pairs judged in both orders.
        consistent: both orders name the same side, or both a tie.
        flips_to_first, flips_to_second: both orders name the same slot, so one of the answers is about order alone.
        half_flips: one order is a tie, the other is not.
        p_flips: two-sided exact p of the flips leaning to one slot: the bias test.
        first_share: share of the decisive answers that name the first slot; None without one.
        p_slots: the same test on all decisive answers; takes the two orders as independent, so for reference only.
        wins_a, wins_b: pairs that both orders give to side A, and to side B.
    """

    pairs: int
    consistent: int
    flips_to_first: int
    flips_to_second: int
    half_flips: int
    p_flips: float
    first_share: float | None
    p_slots: float
    wins_a: int
    wins_b: int

    @property
    def ties(self) -> int:
        """Pairs that neither side won in both orders."""
        return self.pairs - self.wins_a - self.wins_b


@dataclass(frozen=True, slots=True)
class Stability:
    """Same pair, same order, asked again.

    Attributes:
        modal_share: mean over pairs of the share that the most frequent answer has; None without answers.
        unanimous: share of the pairs whose answers all agree.
        n: pairs with an answer.
    """

    modal_share: float | None
    unanimous: float | None
    n: int


def win_rate(wins: int, losses: int, ties: int) -> WinRate:
    """Win rate with ties as half, and the sign test that leaves them out."""
    n, decisive = wins + losses + ties, wins + losses
    return WinRate(
        wins=wins,
        losses=losses,
        ties=ties,
        n=n,
        win_rate=(wins + ties / 2) / n if n else None,
        win_rate_decisive=wins / decisive if decisive else None,
        net_preference=(wins - losses) / n if n else None,
        se=cluster_se([1.0] * wins + [0.0] * losses + [0.5] * ties)[0],
        p_sign=coin_two_sided_p(wins, decisive),
        interval_decisive=wilson(wins, decisive) if decisive else Interval(None, None, 0.95, "every case is a tie"),
    )


def majority(votes: Sequence[Item]) -> Item | None:
    """The answer with more than half of all votes cast, else None."""
    if not votes:
        return None
    answer, count = Counter(votes).most_common(1)[0]
    return answer if 2 * count > len(votes) else None


def pair_winner(ab: Slot, ba: Slot) -> Literal["a", "b"] | None:
    """The side that both orders name. `ab`: the slot chosen with A shown first; `ba`: with B shown first."""
    if (ab, ba) == ("first", "second"):
        return "a"
    return "b" if (ab, ba) == ("second", "first") else None


def case_preference(outcomes: Sequence[int]) -> Preference:
    """A case has one vote: the sign of the sum over its pairs of +1 (candidate won), 0, -1 (baseline won)."""
    total = sum(outcomes)
    return "candidate" if total > 0 else "baseline" if total < 0 else "tie"


def position_bias(records: Sequence[tuple[Slot, Slot]]) -> PositionBias:
    """Sum up pairs judged in both orders, each as (slot chosen with A first, slot chosen with B first)."""
    kinds = Counter(records)
    to_first, to_second = kinds["first", "first"], kinds["second", "second"]
    half = sum(count for (ab, ba), count in kinds.items() if (ab == "tie") != (ba == "tie"))
    firsts = sum((ab == "first") + (ba == "first") for ab, ba in records)
    seconds = sum((ab == "second") + (ba == "second") for ab, ba in records)
    return PositionBias(
        pairs=len(records),
        consistent=len(records) - to_first - to_second - half,
        flips_to_first=to_first,
        flips_to_second=to_second,
        half_flips=half,
        p_flips=coin_two_sided_p(to_first, to_first + to_second),
        first_share=firsts / (firsts + seconds) if firsts + seconds else None,
        p_slots=coin_two_sided_p(firsts, firsts + seconds),
        wins_a=kinds["first", "second"],
        wins_b=kinds["second", "first"],
    )


def stability(answers: Sequence[Sequence[Hashable]]) -> Stability:
    """How often a judge repeats itself; pairs without an answer are left out."""
    asked = [pair for pair in answers if pair]
    if not asked:
        return Stability(None, None, 0)
    shares = [Counter(pair).most_common(1)[0][1] / len(pair) for pair in asked]
    return Stability(sum(shares) / len(asked), sum(len(set(pair)) == 1 for pair in asked) / len(asked), len(asked))
