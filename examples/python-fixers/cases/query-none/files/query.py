"""Conditions on columns, as object-relational mappers build them."""


class Column:
    __hash__ = object.__hash__

    def __init__(self, name):
        self.name = name

    def __eq__(self, value):
        return lambda row: row[self.name] == value


def where(rows, condition):
    return [row for row in rows if condition(row)]
