"""One file per judge or pairwise judge."""
