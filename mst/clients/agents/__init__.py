"""Coding agents: one file for each, with its arguments, its settings and how its transcript reads."""
