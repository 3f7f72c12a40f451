"""Assertions, checks, judging, comparing; where verdicts come from."""
