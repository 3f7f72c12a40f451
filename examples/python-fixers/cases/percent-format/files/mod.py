"""Lines of a report."""


def line(key, value):
    return "%s: %s" % (key, value)
