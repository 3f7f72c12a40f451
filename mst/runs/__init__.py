"""Run folders: write, read, regrade, resume."""
