"""Addresses in mail headers."""


def header(name, address):
    return "{0} <{1}>".format(name, address)
