"""Counters."""


class Counter:
    def __init__(self, start):
        self.value = start

    def add(self):
        self.value += 1
        return self.value


class Doubling(Counter):
    def __init__(self, start):
        super(Doubling, self).__init__(start * 2)

    def add(self):
        super(Doubling, self).add()
        return super(Doubling, self).add()
