"""Files and folders that come from elsewhere, maybe another disk, and appear under their names when they are whole."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

from mst.config.files import discard
from mst.errors import InfrastructureError


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file. A process that dies in the middle leaves nothing that the next one takes for the file.

    Raises:
        InfrastructureError: the source cannot be read, or the target cannot be written.
    """
    # a name that `remove_halves` knows
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        shutil.copyfile(source, temporary)
        temporary.replace(target)
    except OSError as error:
        raise _refused(target, error) from error
    finally:
        discard(temporary)


def move_folder(source: Path, target: Path) -> None:
    """Move a folder to where nothing is yet; parents are made. What an earlier try left half-moved is removed.

    Raises:
        InfrastructureError: it cannot be moved; what there is of it stays at the source.
    """
    moving = target.with_name(f".{target.name}.moving")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if moving.exists():
            shutil.rmtree(moving)
        shutil.move(source, moving)
        moving.replace(target)
    except OSError as error:
        shutil.rmtree(moving, ignore_errors=True)
        raise _refused(target, error) from error


def _refused(target: Path, error: OSError) -> InfrastructureError:
    # a copied folder has one entry for each file that failed: source, target and why
    entries = error.args[0] if isinstance(error, shutil.Error) else None
    why = str(entries[0][2]).partition("] ")[2].partition(":")[0] if isinstance(entries, list) and entries else None
    return InfrastructureError(
        f"{target}: cannot be written ({error.strerror or why or error}); free space or fix permissions"
    )
