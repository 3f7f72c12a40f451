"""Child processes and secrets: how programs are started, bounded and ended, and what is taken out of their words."""
