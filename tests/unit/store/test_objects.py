"""A server's answers in our words, where a real server can't be brought to give them."""

import pytest
from obstore.exceptions import GenericError, InvalidPathError, PermissionDeniedError
from obstore.store import MemoryStore as Backend

from mst.errors import StoreDenied, StoreError, StoreUnavailable
from mst.store.objects import ObstoreStore, client_options


def silence(*lines):
    """As obstore words a connection that failed."""
    asked = "Error performing GET https://host:1/bucket/key?X=signature in 1ms"
    return "\n".join(
        [f"Generic S3 error: {asked} - HTTP error: error sending", "", "Debug source:", "Generic {", *lines, "}"]
    )


def answer(status, code):
    return (
        f"Generic S3 error: Error performing PUT http://host/bucket/key?X=signature in 1ms - Server returned non-2xx"
        f" status code: {status} Some Words: <Error><Code>{code}</Code><Message>m</Message></Error>\n\nDebug: ..."
    )


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (answer(403, "RequestTimeTooSkewed"), StoreDenied, "clock is wrong (RequestTimeTooSkewed); set it"),
        (answer(400, "ExpiredToken"), StoreDenied, "have expired (ExpiredToken); get new ones"),
        (answer(403, "SignatureDoesNotMatch"), StoreDenied, "access denied (SignatureDoesNotMatch); HINT"),
        (answer(400, "RequestTimeout"), StoreUnavailable, "busy"),
        (answer(400, "BadDigest"), StoreUnavailable, "other bytes arrived than were sent (BadDigest)"),
        (answer(429, "TooManyRequests"), StoreUnavailable, "answered 429"),
        (answer(503, "SlowDown"), StoreUnavailable, "busy"),
        (answer(502, "BadGateway"), StoreUnavailable, "answered 502 (BadGateway)"),
        (answer(409, "ConditionalRequestConflict"), StoreUnavailable, "busy"),
        (answer(404, "NoSuchBucket"), StoreError, "bucket does not exist"),
        (answer(400, "EntityTooLarge"), StoreError, "answered 400"),
        (
            "Generic S3 error: Error performing GET http://host/k in 1s - HTTP error: operation timed out",
            StoreUnavailable,
            "timed out",
        ),
        (
            silence("    Os {", "        code: 111,", '        message: "Connection refused",', "    },"),
            StoreUnavailable,
            "no answer from https://host:1 (Connection refused)",
        ),
        (
            silence(
                '    "dns error",', '    error: "failed to lookup address information: Name or service not known",'
            ),
            StoreUnavailable,
            "no answer from https://host:1 (failed to lookup address",
        ),
        (silence("    InvalidMessage(", "        InvalidContentType,", "    ),"), StoreError, "begin with http://?"),
        (
            "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error: x",
            StoreDenied,
            "no credentials found; HINT",
        ),
    ],
)
def test_an_answer_becomes_one_clear_line(text, kind, message):
    store = ObstoreStore(Backend(), uri="s3://bucket/p", hint="HINT")
    made = store._error(GenericError(text), "write", "a/b")
    assert type(made) is kind
    assert message in str(made)
    assert str(made).startswith("cannot write a/b in s3://bucket/p: ")
    assert "\n" not in str(made)
    assert "signature" not in str(made)
    assert made.retryable is (kind is StoreUnavailable)


def test_a_foreign_name_that_breaks_a_listing_is_named():
    store = ObstoreStore(Backend(), uri="s3://bucket/p", hint="HINT")
    text = 'Encountered object with invalid path: Error parsing Path "p/a//b": Path contained empty path segment'
    made = store._error(InvalidPathError(text), "list", "")
    assert str(made) == (
        "cannot list objects in s3://bucket/p: 'p/a//b' is no name of ours; remove it, or give mst a prefix of its own"
    )
    assert type(made) is StoreError


def test_a_refusal_without_words_is_a_refusal():
    store = ObstoreStore(Backend(), uri="s3://bucket/p", hint="HINT")
    made = store._error(PermissionDeniedError("The operation lacked the necessary privileges"), "look at", "a")
    assert isinstance(made, StoreDenied)


def test_plain_http_only_where_the_endpoint_says_so():
    assert client_options("http://127.0.0.1:1", silence_s=1)["allow_http"]
    assert not client_options("https://host", silence_s=1)["allow_http"]
    assert not client_options(None, silence_s=1)["allow_http"]
