"""A caller that takes the re-exported name."""

from mod import Circle


def area():
    return Circle(2).area()
