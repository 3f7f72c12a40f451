"""Distances."""

from units import MILES, to_miles


def distance(kilometres):
    return f"{to_miles(kilometres):.1f} {MILES}"
