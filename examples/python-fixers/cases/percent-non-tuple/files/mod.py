"""Messages of errors that carry exactly one argument."""


def message(error):
    return "failed: %s" % error.args
