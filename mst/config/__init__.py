"""Eval configs, datasets and plugins to typed objects."""
