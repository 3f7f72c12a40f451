"""Addresses in mail headers."""


def header(name, address):
    return f"{name} <{address}>"
