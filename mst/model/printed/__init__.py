"""What commands print with `--json`, one module for what belongs together."""
