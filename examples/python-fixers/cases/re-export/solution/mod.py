"""The drawing API: names that callers use come from here."""

from shapes import Circle as Circle
from shapes import Square


def unit():
    return Square(1)
