"""The fleet's limiter keeps the contract, over a real Valkey."""

import pytest

from mst.fleet.connect import connect
from mst.fleet.limiter import FleetLimiter
from mst.testing.limiter import LimiterContract
from mst.testing.servers import valkey

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with valkey(tmp_path_factory.mktemp("limits")) as server:
        client = connect(server.url)
        yield client
        client.close()


class TestFleetLimiter(LimiterContract):
    @pytest.fixture(autouse=True)
    def _fresh(self, client):
        client.flushall()
        self._client = client

    def make(self):
        return lambda: FleetLimiter(self._client, ttl_s=2)
