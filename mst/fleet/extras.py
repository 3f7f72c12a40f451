"""The fleet's optional libraries, loaded when used, with an error that names the extra to install."""

from __future__ import annotations

import importlib
from types import ModuleType

from mst.errors import UsageError


def need(module: str, extra: str = "fleet") -> ModuleType:
    """Import a module that belongs to an extra.

    Raises:
        UsageError: it is not installed; says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.split(".", maxsplit=1)[0]
        raise UsageError(f"the fleet needs {library}, which is not installed: pip install 'mst[{extra}]'") from error
