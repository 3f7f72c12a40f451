"""Access lists."""


def denied(user, allowed):
    return not user in allowed


def changed(old, new):
    return not old is new
