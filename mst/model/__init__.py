"""Frozen values of everything stored or sent. No I/O, no clock."""
