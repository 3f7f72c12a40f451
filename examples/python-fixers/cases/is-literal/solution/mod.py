"""Speeds."""


def workers(mode):
    if mode == "fast":
        return 8
    return 1
