"""Greetings."""


def greeting(name):
    if not name:
        return "hello, whoever you are"
    return f"hello, {name}"
