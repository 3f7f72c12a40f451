"""Stores."""


class Store:
    def get(self, key):
        raise NotImplementedError


class Memory(Store):
    def __init__(self, **items):
        self.items = items

    def get(self, key):
        return self.items[key]
