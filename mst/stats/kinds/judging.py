"""Kinds about judges and raters: agreement, preferences, position bias, strengths."""

from __future__ import annotations

from typing import Any, get_args

from mst.stats.agreement import (
    Scale,
    Weights,
    cohen_kappa,
    fleiss_kappa,
    judge_corrected_rate,
    krippendorff_alpha,
    weighted_kappa,
)
from mst.stats.kinds.registry import Inputs, Label, Result, Table, Undefined, either
from mst.stats.preferences import Slot, case_preference, majority, pair_winner, position_bias, stability, win_rate

KINDS = Table()

_CHANCE = "chance alone explains all of it: every rating is the same, or there is none"
_SLOTS: tuple[Slot, ...] = get_args(Slot)
_SCALES: tuple[Scale, ...] = get_args(Scale)
_WEIGHTS: tuple[Weights, ...] = get_args(Weights)
_MAX_SYSTEMS = 200
_MAX_GAMES = 1e9


@KINDS.add("cohen_kappa", "agreement of two raters", rater1="labels", rater2="labels of the same items")
def _cohen(inputs: Inputs) -> Result:
    rater1 = inputs.labels("rater1")
    found = cohen_kappa(rater1, inputs.labels("rater2", len(rater1)))
    return {
        "observed_agreement": either(found.observed, "there is no item"),
        "expected_agreement": either(found.expected, "there is no item"),
        "kappa": either(found.kappa, _CHANCE),
    }


@KINDS.add(
    "cohen_kappa_weighted",
    "agreement of two raters on an ordered scale",
    rater1="labels",
    rater2="labels of the same items",
    scale="all labels in order",
)
def _weighted(inputs: Inputs) -> Result:
    rater1, scale = inputs.labels("rater1"), inputs.labels("scale")
    rater2 = inputs.labels("rater2", len(rater1))
    for name, labels in (("rater1", rater1), ("rater2", rater2)):
        for index, label in enumerate(labels):
            if label not in scale:
                raise inputs.fail(f"{name}[{index}]", f"{label!r} is not on the scale")
    return {name: either(weighted_kappa(rater1, rater2, scale, name), _CHANCE) for name in _WEIGHTS}


@KINDS.add("fleiss_kappa", "agreement of several raters", items="list of items, each with one label per rater")
def _fleiss(inputs: Inputs) -> Result:
    items = _rows(inputs, "items")
    for index, item in enumerate(items):
        if len(item) < 2 or len(item) != len(items[0]):
            raise inputs.fail(f"items[{index}]", "every item needs as many labels as the first, and at least two")
    return {"kappa": either(fleiss_kappa(items), _CHANCE)}


@KINDS.add("krippendorff_alpha", "agreement of raters with gaps", raters="one list per rater, a label or null per item")
def _krippendorff(inputs: Inputs) -> Result:
    raters: list[list[float | str | None]] = []
    for rater, row in enumerate(inputs.items("raters")):
        place = f"raters[{rater}]"
        raters.append(
            [
                None if label is None else inputs.as_label(label, f"{place}[{index}]")
                for index, label in enumerate(inputs.as_items(row, place))
            ]
        )
        if len(raters[rater]) != len(raters[0]):
            raise inputs.fail(place, "every rater needs as many entries as the first")
    labels = [label for row in raters for label in row if label is not None]
    words = any(isinstance(label, str) for label in labels)
    negative = any(not isinstance(label, str) and label < 0 for label in labels)
    result: Result = {}
    for scale in _SCALES:
        if words and scale != "nominal":
            result[scale] = Undefined("labels are not numbers")
        elif negative and scale == "ratio":
            result[scale] = Undefined("a ratio scale has no negative values")
        else:
            result[scale] = either(krippendorff_alpha(raters, scale), _CHANCE)
    return result


@KINDS.add(
    "judge_corrected_rate",
    "a pass rate corrected for the judge's known errors (Rogan-Gladen)",
    observed="rate that the judge saw",
    n="trials behind it",
    tpr="share of truly passing trials that the judge passes",
    n_pos="trials behind tpr",
    tnr="share of truly failing trials that the judge fails",
    n_neg="trials behind tnr",
)
def _corrected(inputs: Inputs) -> Result:
    observed, tpr, tnr = (inputs.number(name, 0, 1) for name in ("observed", "tpr", "tnr"))
    n, n_pos, n_neg = (inputs.integer(name, 1) for name in ("n", "n_pos", "n_neg"))
    found = judge_corrected_rate(observed, n, tpr=tpr, n_pos=n_pos, tnr=tnr, n_neg=n_neg)
    return {
        "corrected": either(found.rate, found.reason),
        "se": either(found.se, found.reason),
        "ci95": found.interval,
    }


@KINDS.add(
    "position_bias",
    "does a pairwise judge prefer a slot?",
    records="list of {ab, ba}: slot chosen (first, second, tie) with A shown first, and with B shown first",
)
def _position_bias(inputs: Inputs) -> Result:
    records = []
    for index, record in enumerate(inputs.items("records")):
        _keys(inputs, record, f"records[{index}]", "ab", "ba")
        records.append(
            (
                inputs.as_choice(record["ab"], f"records[{index}].ab", _SLOTS),
                inputs.as_choice(record["ba"], f"records[{index}].ba", _SLOTS),
            )
        )
    found = position_bias(records)
    wins = win_rate(found.wins_a, found.wins_b, found.ties)
    flips, none = found.flips_to_first + found.flips_to_second, "there is no pair"
    return {
        "pairs": found.pairs,
        "consistency_rate": either(found.consistent / found.pairs if found.pairs else None, none),
        "flip_rate": either(flips / found.pairs if found.pairs else None, none),
        "half_flip_rate": either(found.half_flips / found.pairs if found.pairs else None, none),
        "flips_to_first": found.flips_to_first,
        "flips_to_second": found.flips_to_second,
        "first_slot_share_of_decisive": either(found.first_share, "no answer is decisive"),
        "slot_binomial_p": found.p_slots,
        "flips_binomial_p": found.p_flips,
        "resolved": {"A": found.wins_a, "B": found.wins_b, "tie": found.ties},
        "win_rate_a_ties_half": either(wins.win_rate, none),
        "sign_test_p": wins.p_sign,
    }


@KINDS.add(
    "pairwise_cases",
    "win rate over cases judged in pairs, both orders, with repetitions",
    cases="list of {pairs: [{ab, ba}]}: per order the slots chosen; ab shows the candidate first",
)
def _pairwise_cases(inputs: Inputs) -> Result:
    preferences, consistent, pairs = [], 0, 0
    for index, case in enumerate(inputs.items("cases")):
        place = f"cases[{index}]"
        _keys(inputs, case, place, "pairs")
        outcomes = []
        for number, pair in enumerate(inputs.as_items(case["pairs"], f"{place}.pairs", 1)):
            _keys(inputs, pair, f"{place}.pairs[{number}]", "ab", "ba")
            ab, ba = (
                majority(
                    [
                        inputs.as_choice(slot, f"{place}.pairs[{number}].{order}", _SLOTS)
                        for slot in inputs.as_items(pair[order], f"{place}.pairs[{number}].{order}", 1)
                    ]
                )
                or "tie"
                for order in ("ab", "ba")
            )
            winner = pair_winner(ab, ba)
            outcomes.append({"a": 1, "b": -1, None: 0}[winner])
            pairs += 1
            consistent += winner is not None or (ab, ba) == ("tie", "tie")
        preferences.append(case_preference(outcomes))
    found = win_rate(*(preferences.count(side) for side in ("candidate", "baseline", "tie")))
    return {
        "preferences": preferences,
        "wins": found.wins,
        "losses": found.losses,
        "ties": found.ties,
        "win_rate": either(found.win_rate, "there is no case"),
        "p_sign_two_sided": found.p_sign,
        "consistent_pairs": consistent,
        "pairs": pairs,
    }


@KINDS.add(
    "repetition_stability", "does a judge repeat itself?", verdicts="list of pairs, each the answers to one question"
)
def _stability(inputs: Inputs) -> Result:
    found = stability(_rows(inputs, "verdicts"))
    return {
        "mean_share_of_modal": either(found.modal_share, "there is no answer"),
        "unanimous": either(found.unanimous, "there is no answer"),
    }


@KINDS.add("majority_vote", "the answer of more than half of all votes, or no_majority", votes="list of lists of votes")
def _majority(inputs: Inputs) -> Result:
    winners = [majority(votes) for votes in _rows(inputs, "votes")]
    return {"result": ["no_majority" if winner is None else winner for winner in winners]}


@KINDS.add(
    "bradley_terry",
    "strengths of systems from their wins over each other",
    systems="names, two or more",
    wins="object: 'winner>loser' -> number of wins",
    ties_opt="object: 'one=other' -> number of ties, half a win each",
)
def _bradley_terry(inputs: Inputs) -> Result:
    from mst.stats.bradley_terry import bradley_terry  # noqa: PLC0415 - loads numpy

    systems = [str(name) for name in inputs.labels("systems")]
    if not 2 <= len(set(systems)) == len(systems) <= _MAX_SYSTEMS:
        raise inputs.fail("systems", f"must be 2 to {_MAX_SYSTEMS} different names")
    wins: dict[tuple[str, str], float] = _games(inputs, systems, "wins", ">")
    for (one, other), count in (_games(inputs, systems, "ties", "=") if "ties" in inputs else {}).items():
        for pair in ((one, other), (other, one)):
            wins[pair] = wins.get(pair, 0) + count / 2
    fit = bradley_terry(systems, wins)
    if fit.reason:
        missing = Undefined(fit.reason)
        return dict.fromkeys(("log_strength", "se_zero_sum", "ci95", "elo_1000", "pairs"), missing)
    return {
        "log_strength": {name: strength.log_strength for name, strength in fit.systems.items()},
        "se_zero_sum": {name: strength.se for name, strength in fit.systems.items()},
        "ci95": {name: strength.interval for name, strength in fit.systems.items()},
        "elo_1000": {name: strength.elo for name, strength in fit.systems.items()},
        "pairs": {
            f"{one}-{other}": {"diff": pair.difference, "se": pair.se, "ci95": pair.interval, "p_win": pair.p_win}
            for (one, other), pair in fit.pairs.items()
        },
    }


def _games(inputs: Inputs, systems: list[str], name: str, sign: str) -> dict[tuple[str, str], float]:
    """Counts by pair; names may hold the sign, so pairs are matched whole."""
    known = {f"{one}{sign}{other}": (one, other) for one in systems for other in systems if one != other}
    games: dict[tuple[str, str], float] = {}
    for key, count in inputs.mapping(name).items():
        if key not in known:
            raise inputs.fail(f"{name}.{key}", f"must name two of the systems, as in 'one{sign}other'")
        games[known[key]] = inputs.as_number(count, f"{name}.{key}", 0, _MAX_GAMES)
    return games


def _rows(inputs: Inputs, name: str) -> list[list[Label]]:
    return [
        [inputs.as_label(label, f"{name}[{row}][{index}]") for index, label in enumerate(labels)]
        for row, labels in enumerate(
            inputs.as_items(value, f"{name}[{row}]") for row, value in enumerate(inputs.items(name))
        )
    ]


def _keys(inputs: Inputs, value: Any, place: str, *names: str) -> None:
    if not isinstance(value, dict) or set(value) != set(names):
        raise inputs.fail(place, f"must be an object with {', '.join(names)}")
