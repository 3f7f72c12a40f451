"""The module that knows the model library, imported when a model is first needed: it costs a second."""

from __future__ import annotations

import importlib
from typing import Any

from mst.providers.endpoints import missing_package


def library() -> Any:
    """`mst.providers.library`.

    Raises:
        ConfigError: the extra is missing.
    """
    try:
        return importlib.import_module("mst.providers.library")
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
