"""Sums, with an extension when it is installed."""

try:
    import fast_sums_extension

    FAST = True
except ImportError:
    FAST = False


def backend():
    return "extension" if FAST else "pure python"
