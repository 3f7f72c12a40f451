"""The store contract on a real server of Google's storage API."""

import itertools
import json
import urllib.error
import urllib.parse
import urllib.request

import pytest

from mst.store.gcs import open_gcs
from mst.testing.servers import fake_gcs
from mst.testing.store import RawStore, StoreContract

pytestmark = pytest.mark.server
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with fake_gcs(tmp_path_factory.mktemp("gcs")) as running:
        yield running


class RawApi(RawStore):
    """The JSON API by hand."""

    def __init__(self, server, prefix):
        self._server, self._prefix = server, prefix

    def read(self, key):
        name = urllib.parse.quote(f"{self._prefix}/{key}", safe="")
        url = f"{self._server.endpoint_url}/download/storage/v1/b/{self._server.bucket}/o/{name}?alt=media"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 404:
                raise
            return None

    def write(self, key, data):
        query = urllib.parse.urlencode({"uploadType": "media", "name": f"{self._prefix}/{key}"})
        url = f"{self._server.endpoint_url}/upload/storage/v1/b/{self._server.bucket}/o?{query}"
        urllib.request.urlopen(urllib.request.Request(url, data=data, method="POST"), timeout=30).close()

    def keys(self):
        query = urllib.parse.urlencode({"prefix": f"{self._prefix}/", "maxResults": 10000})
        url = f"{self._server.endpoint_url}/storage/v1/b/{self._server.bucket}/o?{query}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = json.load(answer).get("items", [])
        return {item["name"].removeprefix(f"{self._prefix}/") for item in found}


class TestGcsStore(StoreContract):
    @pytest.fixture
    def prefix(self):
        return f"prefix/{next(_numbers)}"

    @pytest.fixture
    def store(self, server, prefix):
        return open_gcs(server.uri(prefix), {})

    @pytest.fixture
    def raw(self, server, prefix):
        return RawApi(server, prefix)
