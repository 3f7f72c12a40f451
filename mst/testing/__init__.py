"""Contract suites, fakes and server starters; public, for plugin authors too."""
