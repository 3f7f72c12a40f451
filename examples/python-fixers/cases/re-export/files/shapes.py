"""Shapes."""


class Square:
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2


class Circle:
    def __init__(self, radius):
        self.radius = radius

    def area(self):
        return 3 * self.radius**2
