"""Speeds."""


def workers(mode):
    if mode is "fast":
        return 8
    return 1
