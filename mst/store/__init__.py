"""Result stores: one contract, one file per kind."""
