"""Values in a table."""


def cell(value):
    if isinstance(value, str):
        return value
    return repr(value)
