"""The registry of formats."""

REGISTRY = {}


def register(name):
    def keep(function):
        REGISTRY[name] = function
        return function

    return keep
