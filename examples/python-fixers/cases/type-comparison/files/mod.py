"""Values in a table."""


def cell(value):
    if type(value) == str:
        return value
    return repr(value)
