"""Greetings."""


def greeting(name):
    if not name:
        return f"hello, whoever you are"
    return f"hello, {name}"
