"""What a provider sends, read whole and within a bound before a vendor's package sees it.

The vendors' packages read a body of any length, unpack what is packed, take half a character for a text that can be
written, and take an error under status 200 for an answer without its parts.
"""

from __future__ import annotations

import json
import re
from typing import Any

import httpx2

from mst.model.sound import sound_data
from mst.providers.attempts import ModelFault

ANSWER_BYTES = 16 * 1024**2
"""Bound of one answer, unpacked. The longest answers of models have a few hundred thousand characters."""
_PACKING = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_ANSWERS = frozenset({"choices", "content", "candidates"})
"""What an answer has in it, in any dialect."""


class WholeAnswers(httpx2.AsyncClient):
    """A client whose answers are read to their end before they are given to anybody."""

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """See the base class; `stream` makes no difference.

        Raises:
            ModelFault: an answer that is too long, or an error under status 200.
        """
        response = await super().send(request, stream=True, **options)
        try:
            body = await _read(response)
        finally:
            await response.aclose()
        status, body = _understood(response.status_code, body)
        return httpx2.Response(
            status,
            headers=[(name, value) for name, value in response.headers.multi_items() if name not in _PACKING],
            content=body,
            request=request,
            history=response.history,
            extensions=response.extensions,
        )


async def _read(response: httpx2.Response) -> bytes:
    found = bytearray()
    async for piece in response.aiter_bytes():
        found += piece
        if len(found) > ANSWER_BYTES:
            raise ModelFault(f"an answer of more than {ANSWER_BYTES} bytes", "answer")
    return bytes(found)


def _understood(status: int, body: bytes) -> tuple[int, bytes]:
    """Status and body as the provider means them."""
    half = _HALF.search(body) is not None
    if not half and not (status == 200 and b'"error"' in body):
        return status, body
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return status, body  # whoever reads it says what is wrong with it
    if status == 200:
        status = _status_of(said)
    return status, json.dumps(sound_data(said)).encode() if half else body


def _status_of(said: Any) -> int:
    """The status that an answer of 200 stands for: gateways send errors of the providers behind them so."""
    error = said.get("error") if isinstance(said, dict) and not _ANSWERS & said.keys() else None
    if not error:
        return 200
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int) and 400 <= code <= 599:
        return code
    message = error.get("message") if isinstance(error, dict) else None
    raise ModelFault(f"HTTP 200 with an error: {message or error}", "server")
