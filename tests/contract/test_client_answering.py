"""The clients that start nothing, under the contract."""

from __future__ import annotations

from mst.clients.echo import Echo
from mst.clients.noop import Noop
from mst.clients.oracle import Oracle
from mst.model.case import Case, Variant
from mst.testing.client import ClientContract


class TestEcho(ClientContract):
    def variant(self, **changes):
        return Variant(name="v", client="echo", **changes)

    def make(self, variant):
        return Echo(variant)


class TestNoop(ClientContract):
    def variant(self, **changes):
        return Variant(name="v", client="noop", **changes)

    def make(self, variant):
        return Noop(variant)

    def expected(self, number):
        return ""


class TestOracle(ClientContract):
    def variant(self, **changes):
        return Variant(name="v", client="oracle", **changes)

    def make(self, variant):
        return Oracle(variant)

    def case(self, number=0):
        return Case(id=f"case-{number}", dataset="d", input="?", expected={"answer": f"hello {number}"})
