"""The order in which trials run: seeded, with variants interleaved, so that no variant has the better hour. Pure.

Policy `seeded-interleaved-v1`: round after round (trial 0 of every case, then trial 1, ...), the cases of a round in a
seeded random order, and the variants of one case and trial next to each other in a seeded random order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from mst.model.keys import TrialKey


def trial_order(
    case_ids: Iterable[str], variants: Sequence[str], trials_of: Callable[[str], int], seed: int
) -> Iterator[TrialKey]:
    """Every trial once, in the order to run them.

    Each place derives from the seed and the trial's own names alone. So the order of some of the cases, as a shard has
    them, is a part of the order of all; and it does not depend on the order in which cases or variants are given.
    Memory: a few words per case, however many trials there are.
    """
    counts = {case_id: trials_of(case_id) for case_id in case_ids}
    for trial in range(max(counts.values(), default=0)):
        due = [case_id for case_id, count in counts.items() if count > trial]
        due.sort(key=lambda case_id: (_place(seed, trial, case_id), case_id))
        for case_id in due:
            for variant in sorted(variants, key=lambda name: (_place(seed, trial, case_id, name), name)):
                yield TrialKey(variant=variant, case_id=case_id, trial=trial)


def _place(seed: int, trial: int, *names: str) -> bytes:
    # Lengths keep ("a", "bc") and ("ab", "c") apart.
    parts = b"".join(len(part).to_bytes(4) + part for part in (name.encode() for name in names))
    return hashlib.blake2b(b"%d|%d|" % (seed, trial) + parts, digest_size=8).digest()
