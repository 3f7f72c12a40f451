"""Formats that register themselves when this module is imported."""

from formats import register


def lines(rows, separator):
    return "\n".join(separator.join(map(str, row)) for row in rows)


@register("csv")
def csv(rows):
    return lines(rows, ",")


@register("tsv")
def tsv(rows):
    return lines(rows, "\t")
