"""Colours."""

CODES = {
    "red": "#f00",
    "green": "#0f0",
    "blue": "#00f",
    "red": "#f00",
}


def code(colour):
    return CODES[colour]
