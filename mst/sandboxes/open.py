"""From a variant's `sandbox` to what isolates its trials. Heavy kinds are imported when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mst.sandboxes.contract import Sandbox
from mst.sandboxes.none import NoSandbox
from mst.sandboxes.options import sandbox_options


def open_sandbox(written: Mapping[str, Any], where: str) -> Sandbox:
    """The sandbox of a variant.

    Args:
        written: the variant's `sandbox`.
        where: for messages: `variant 'a'`.

    Raises:
        ConfigError: it is not well-formed, or asks for what its kind cannot give.
    """
    options = sandbox_options(written, where)
    if options.kind == "none":
        return NoSandbox(options)
    if options.kind == "docker":
        from mst.sandboxes.docker import DockerSandbox  # noqa: PLC0415 - as below

        return DockerSandbox(options)
    from mst.sandboxes.bwrap import Bwrap  # noqa: PLC0415 - most runs have no sandbox

    return Bwrap(options)
