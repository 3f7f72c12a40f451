"""Counters."""


class Counter:
    def __init__(self, start):
        self.value = start

    def add(self):
        self.value += 1
        return self.value


class Doubling(Counter):
    def __init__(self, start):
        super().__init__(start * 2)

    def add(self):
        super().add()
        return super().add()
