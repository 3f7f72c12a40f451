"""Feature switches."""


def state(switch):
    if switch == None:
        return "unknown"
    if switch == True:
        return "on"
    return "off"
