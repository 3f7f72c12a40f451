"""The store contract on a real S3 server."""

import itertools
import urllib.error
import urllib.parse
import urllib.request

import obstore
import pytest
from obstore.store import S3Store

from mst.store.s3 import open_s3
from mst.testing.servers import seaweedfs
from mst.testing.store import RawStore, StoreContract

pytestmark = pytest.mark.server
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as running:
        yield running


class RawFiler(RawStore):
    """SeaweedFS's own file interface below its S3 gateway."""

    def __init__(self, server, prefix):
        self._folder = f"{server.filer_url}/buckets/{server.bucket}/{prefix}"
        self._server, self._prefix = server, prefix

    def read(self, key):
        try:
            with urllib.request.urlopen(self._url(key), timeout=30) as answer:
                return None if answer.headers.get("X-Filer-Is-Directory") else answer.read()
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 404:
                raise
            return None

    def write(self, key, data):
        request = urllib.request.Request(self._url(key), data=data, method="PUT")
        urllib.request.urlopen(request, timeout=30).close()

    def keys(self):
        raw = S3Store(
            self._server.bucket,
            endpoint=self._server.endpoint_url,
            region="us-east-1",
            access_key_id=self._server.key,
            secret_access_key=self._server.secret,
            client_options={"allow_http": True},
        )
        pages = obstore.list(raw, self._prefix)
        return {meta["path"].removeprefix(f"{self._prefix}/") for page in pages for meta in page}

    def _url(self, key):
        return f"{self._folder}/{urllib.parse.quote(key)}"


class TestS3Store(StoreContract):
    @pytest.fixture
    def prefix(self):
        return f"prefix/{next(_numbers)}"

    @pytest.fixture
    def store(self, server, prefix):
        return open_s3(server.uri(prefix), server.environ())

    @pytest.fixture
    def raw(self, server, prefix):
        return RawFiler(server, prefix)
