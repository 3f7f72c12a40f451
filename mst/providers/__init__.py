"""Providers of models: where they are, how fast they may be asked, what went wrong, and what it cost."""
