"""Pure statistics: intervals, paired tests, verdicts, preferences, agreement, power.

Nothing here does I/O or reads a clock; randomness is seeded by the caller. Importing this package loads nothing else:
callers import the module they need, for example `from mst.stats import decision, intervals`.

    cases, compare, decision, regression   from counts per case to verdicts
    signflip, paired, multiplicity         tests and their correction
    intervals, bounds, repeats, power      rates, means, error bounds, pass@k, how much data is enough
    preferences, agreement, bradley_terry  pairwise judges and raters
    bootstrap                              resampling, for those who ask for it
    kinds                                  all of it by name, as JSON (`mst stats KIND`)
"""
