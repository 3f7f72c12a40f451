"""Grouping."""


def collect(item, into=None):
    if into is None:
        into = []
    into.append(item)
    return into
