"""A key of the cloud's key service goes along with every kind of write. A server that only listens stands for S3."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mst.store import open_store

KEY = "arn:aws:kms:::key/1"
XML = {
    "uploads": b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
    "uploadId": b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>",
}


class _Listener(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_any(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = self.path.partition("?")[2]
        kind = (
            self.headers.get("x-amz-server-side-encryption"),
            self.headers.get("x-amz-server-side-encryption-aws-kms-key-id"),
        )
        self.server.heard.append((self.command, query.partition("=")[0], kind))
        body = XML.get(query.partition("=")[0], b"") if self.command == "POST" else b""
        self.send_response(200)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST = do_any  # noqa: N815 - names that http.server looks for

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def heard():
    """A listening server's requests; its address under `url`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Listener)
    server.daemon_threads = True
    server.heard = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_every_write_to_s3_names_the_key(heard):
    at = f"endpoint_url=http://127.0.0.1:{heard.server_address[1]}&region=x"
    store = open_store(
        f"s3://bucket/p?{at}&server_side_encryption=aws:kms&sse_kms_key_id={KEY}",
        environ={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"},
        patience_s=0,
    )
    store.put("a", b"1")
    store.put_if_absent("b", b"1")
    store.replace_if_match("b", b"1", '"e"')
    store.put("large", bytes(9_000_000))
    begins = [(method, query, kind) for method, query, kind in heard.heard if query in ("", "uploads")]
    assert [method for method, _, _ in begins] == ["PUT", "PUT", "PUT", "POST"]
    assert {kind for _, _, kind in begins} == {("aws:kms", KEY)}
