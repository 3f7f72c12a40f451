"""The part of this machine that every sandboxed program may read: programs and libraries, no settings of anybody."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

WORKSPACE = Path("/workspace")
SCRATCH = Path("/scratch")
HOME = SCRATCH / "home"
UID = 1000
"""What programs take themselves for; several refuse to work as root."""

_ROOTS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_STORES = ("/nix/store", "/gnu/store")
_ETC = (
    "alternatives",
    "ca-certificates",
    "fonts",
    "java-17-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "pki",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@cache
def system_arguments() -> tuple[str, ...]:
    """Arguments of bubblewrap that mount the system, read-only, the same for every trial."""
    found = ["--ro-bind", "/usr", "/usr"]
    for root in map(Path, _ROOTS):
        if root.is_symlink():
            found += ["--symlink", str(root.readlink()), str(root)]
        elif root.is_dir():
            found += ["--ro-bind", str(root), str(root)]
    for store in _STORES:
        found += ["--ro-bind-try", store, store]
    for name in _ETC:
        found += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return tuple(found)


@cache
def python_roots() -> tuple[Path, ...]:
    """Folders that this interpreter needs and that are no part of the system."""
    folders = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent.parent}
    return tuple(sorted(folder for folder in folders if not is_system(folder) and folder != Path.home()))


def is_system(path: Path) -> bool:
    """Whether a path is visible without being asked for."""
    parts = path.parts
    return len(parts) > 1 and any(
        path == Path(root) or path.is_relative_to(root) for root in ("/usr", *_ROOTS, *_STORES)
    )


def inner_path() -> str:
    """The search path inside: the system's folders, then that of this Python, as outside."""
    return os.pathsep.join([_PATH, str(Path(sys.executable).parent)])


def account_files() -> dict[str, bytes]:
    """Files of `/etc` that are made: names of users, of this machine, and where names are looked up."""
    return {
        "passwd": f"root:x:0:0::/:/bin/sh\nmst:x:{UID}:{UID}::{HOME}:/bin/sh\n".encode(),
        "group": f"root:x:0:\nmst:x:{UID}:\n".encode(),
        "hosts": b"127.0.0.1 localhost mst\n::1 localhost\n",
        "nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
    }
