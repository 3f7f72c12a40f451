"""The rates of a plan, under the name by which attempts of a fleet know them."""

from mst.providers.rates import rates_of

__all__ = ["rates_of"]
