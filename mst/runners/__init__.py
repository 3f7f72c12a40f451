"""Where shards run: one file each, one contract."""
