"""`report/index.html`: one page that opens from a disk, uses no network and runs nothing but its own script.

Small details are in the page; more than 10 MB go into scripts beside it that are loaded when a case is looked at.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from mst.config.files import discard
from mst.errors import InfrastructureError
from mst.report.chunks import CHUNK_BYTES, INLINE_MAX_BYTES, ChunkWriter, script_json
from mst.report.page import context
from mst.report.rows import index, scan
from mst.report.text import visible
from mst.report.view import RunView


def write_report(
    view: RunView, into: Path, *, inline_max_bytes: int = INLINE_MAX_BYTES, chunk_bytes: int = CHUNK_BYTES
) -> Path:
    """Write the report of a run, replacing an earlier one. Idempotent; the page is replaced in one step.

    Args:
        view: the run; each of its documents is read once, and one at a time.
        into: the report folder, made when it is missing.
        inline_max_bytes: details larger than this in all are put beside the page.
        chunk_bytes: about how large each of those files gets.

    Returns:
        The page.

    Raises:
        InfrastructureError: the disk is full or may not be written; an earlier report stands as it was.
    """
    try:
        into.mkdir(parents=True, exist_ok=True)
        return _write(view, into, inline_max_bytes=inline_max_bytes, chunk_bytes=chunk_bytes)
    except OSError as error:
        raise InfrastructureError(f"{into}: the report could not be written ({error})") from error


def _write(view: RunView, into: Path, *, inline_max_bytes: int, chunk_bytes: int) -> Path:
    run, summary = view.run(), view.summary()
    variants = [variant.name for variant in summary.variants]
    with ChunkWriter(into / "data", chunk_bytes=chunk_bytes) as chunks:
        rows = scan(view, variants, chunks)
        chunks.finish()
        inline = chunks.total_bytes <= inline_max_bytes
        folder = None if inline else chunks.publish()
        values = {
            **context(run, summary, rows),
            "index": Markup(script_json({**index(rows, summary, variants), "data": folder})),  # noqa: S704 - escaped
            "chunks": _inline_chunks(chunks) if inline else [],
            **_own_code(loads_scripts=not inline),
        }
        page = into / "index.html"
        _replace(page, _environment().from_string(_asset("templates/report.html.j2")).generate(values))
        chunks.retire(folder)
    return page


def _inline_chunks(chunks: ChunkWriter) -> Iterator[tuple[int, Markup]]:
    for number, text in chunks.texts():
        yield number, Markup(text)  # noqa: S704 - written by script_json, which leaves no markup


def _own_code(*, loads_scripts: bool) -> dict[str, Any]:
    """Style and script, and the policy that lets nothing else run.

    `strict-dynamic` lets our script, and only it, load the data files beside the page.
    """
    style, script = _asset("assets/report.css"), _asset("assets/report.js")
    trusted = f"{_hash(script)} 'strict-dynamic'" if loads_scripts else _hash(script)
    policy = (
        f"default-src 'none'; script-src {trusted}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'; connect-src 'none'"
    )
    return {"style": Markup(style), "script": Markup(script), "policy": policy}  # noqa: S704 - our own files


def _environment() -> Environment:
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )


def _asset(name: str) -> str:
    return files("mst.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _replace(path: Path, pieces: Iterator[str]) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(pieces)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        discard(temporary)
