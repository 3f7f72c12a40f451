"""First words."""


def first_word(text):
    separator = " "
    words = text.split()
    return words[0] if words else ""
