"""Coding agents, for clients that run them and judges that are them: one file for each, and the proxy for the key."""
