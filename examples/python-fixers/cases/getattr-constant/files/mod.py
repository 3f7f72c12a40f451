"""Points."""


def shifted(point, by):
    return getattr(point, "x") + by, getattr(point, "y") + by


def value(point, axis):
    return getattr(point, axis)
