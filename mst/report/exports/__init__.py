"""A run's results in the formats of other programs: one file each, all of them written as streams."""
