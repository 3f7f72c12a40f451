"""Lines of a report."""


def line(key, value):
    return f"{key}: {value}"
