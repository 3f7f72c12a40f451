"""Distances."""

from units import *


def distance(kilometres):
    return f"{to_miles(kilometres):.1f} {MILES}"
