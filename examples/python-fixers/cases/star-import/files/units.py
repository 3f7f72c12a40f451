"""Units."""

MILES = "mi"
FEET = "ft"


def to_miles(kilometres):
    return kilometres / 1.609344


def to_feet(metres):
    return metres / 0.3048
