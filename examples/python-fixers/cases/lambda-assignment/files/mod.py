"""Names for the log."""

shout = lambda text: text.upper() + "!"


def both(text):
    return text, shout(text)
