"""Summary tables and the HTML report."""
