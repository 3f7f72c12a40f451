"""Feature switches."""


def state(switch):
    if switch is None:
        return "unknown"
    if switch:
        return "on"
    return "off"
