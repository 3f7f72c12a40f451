"""Access lists."""


def denied(user, allowed):
    return user not in allowed


def changed(old, new):
    return old is not new
