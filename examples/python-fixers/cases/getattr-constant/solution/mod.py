"""Points."""


def shifted(point, by):
    return point.x + by, point.y + by


def value(point, axis):
    return getattr(point, axis)
