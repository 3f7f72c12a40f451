"""Colours."""

CODES = {
    "red": "#f00",
    "green": "#0f0",
    "blue": "#00f",
}


def code(colour):
    return CODES[colour]
