"""Names for the log."""


def shout(text):
    return text.upper() + "!"


def both(text):
    return text, shout(text)
