"""The files of a run folder on their way into a store: small ones in packs, large ones as objects of their own."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mst.errors import StoreError, UsageError
from mst.model.manifest import ManifestFile, Pack
from mst.store.contract import Store
from mst.store.layout import RunKeys
from mst.store.pack import SMALL_BYTES, Packed, Packer
from mst.store.reuse import Present, Reuse
from mst.store.streams import digest_file
from mst.store.transfer import each_as_it_ends

SENDERS = 3
"""Packs and large files in transfer at once. Each holds up to 8 MiB, or the parts of a large file."""

_NOT_TEXT = re.compile("[\ud800-\udfff]")
"""Bytes of a name that are no UTF-8, as Python shows them."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC

SCORES = "scores/"
"""Most files of a run, and few of its bytes. They have packs of their own, which are made while others are sent."""

Job = Callable[[], ManifestFile | Callable[[], Pack]]
"""Sends a file or a pack; of a pack it returns what sends the index."""


@dataclass
class Sent:
    """What a push brought into the store.

    Attributes:
        files: large files, in order of path.
        packs: those used again, then new ones.
        reused: keys of objects that were there already and that this push relies on.
    """

    files: list[ManifestFile] = field(default_factory=list)
    packs: list[Pack] = field(default_factory=list)
    reused: set[str] = field(default_factory=set)


def run_files(run_dir: Path, at_top: Callable[[str], bool] = lambda _: True) -> Iterator[str]:
    """Paths of a run folder's files relative to it, POSIX, in order, without dot names at the top.

    Memory grows with the largest single folder's names only.

    Args:
        run_dir: the run folder.
        at_top: narrows it to some names at the top; those of folders end with a slash.

    Raises:
        UsageError: there is no such folder, or something in it is no plain file.
    """
    if not run_dir.is_dir():
        raise UsageError(f"{run_dir} is not a run folder")
    root = str(run_dir)
    open_folders = [("", iter([name for name in _names(root) if not name.startswith(".") and at_top(name)]))]
    while open_folders:
        prefix, names = open_folders[-1]
        for name in names:
            if name.endswith("/"):
                open_folders.append((prefix + name, iter(_names(f"{root}/{prefix}{name}"))))
                break
            yield prefix + name
        else:
            open_folders.pop()


def _names(folder: str) -> list[str]:
    """Names in a folder, sorted; those of folders end with a slash, which makes it the order of whole paths."""
    try:
        with os.scandir(folder) as entries:
            return _checked_names(entries)
    except OSError as error:
        raise StoreError(f"cannot read {folder}: {error.strerror or error}") from error


def _checked_names(entries: Iterable[os.DirEntry[str]]) -> list[str]:
    names = []
    for entry in entries:
        # Here, where every name comes by: what a manifest may not say must not get as far as one.
        if "\\" in entry.name or _NOT_TEXT.search(entry.name):
            raise UsageError(f"{entry.path!r}: a file with this name cannot be stored; rename it")
        if entry.is_file(follow_symlinks=False):
            names.append(entry.name)
        elif entry.is_dir(follow_symlinks=False):
            names.append(f"{entry.name}/")
        else:
            raise UsageError(
                f"{entry.path}: only plain files can be stored, this is a link or a device; remove or replace it"
            )
    return sorted(names)


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    """A folder's handle: paths relative to it need not be looked up from the root."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"{path} is not a run folder") from error
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        yield handle
    finally:
        os.close(handle)


class Sender:
    """Sends a run folder's files, each content once.

    Args:
        store: where to.
        run_dir: the run's folder.
        keys: of the run.
        reuse: what listed objects hold.
        present: what else is there.
    """

    def __init__(self, store: Store, run_dir: Path, keys: RunKeys, reuse: Reuse, present: Present) -> None:
        self._store = store
        self._run_dir = run_dir
        self._keys = keys
        self._reuse = reuse
        self._present = present
        self._sent = Sent()
        self._under_way = set[Job]()
        self._free = threading.Semaphore(0)

    def send(self, *, workers: int = SENDERS) -> Sent:
        """Bring every file into the store. In memory: `workers` packs on their way, and two that are made.

        Raises:
            DigestMismatch: a large file changed while it was sent.
            UsageError: the folder holds something that cannot be stored.
        """
        self._free = threading.Semaphore(workers)
        with _folder(self._run_dir) as root:
            jobs = self._in_turn(
                self._jobs(root, lambda name: name != SCORES), self._jobs(root, lambda name: name == SCORES), workers
            )
            # Indexes take no place from packs.
            sent = list(each_as_it_ends(self._run, jobs, workers=workers + workers // 2))
        files = [done for done in sent if isinstance(done, ManifestFile)]
        packs = [done for done in sent if isinstance(done, Pack)]
        self._sent.files = sorted(files, key=lambda file: file.path)
        self._sent.packs = [*self._used_again(), *sorted(packs, key=lambda pack: pack.first)]
        return self._sent

    def _in_turn(self, bulk: Iterator[Job | None], scores: Iterator[Job | None], workers: int) -> Iterator[Job]:
        """Jobs of both: most bytes while a sender is free, and while none is, most files, which take the processor."""
        left = [bulk, scores]
        while left:
            stream = left[-1] if len(self._under_way) >= workers else left[0]
            try:
                job = next(stream)
            except StopIteration:
                left.remove(stream)
                continue
            if job is not None:
                self._free.acquire()
                self._under_way.add(job)
                yield job

    def _run(self, job: Job) -> ManifestFile | Pack:
        try:
            sent = job()
        finally:
            self._under_way.discard(job)
            self._free.release()
        # What takes memory is sent: the next may be, while the index goes after it.
        return sent() if callable(sent) else sent

    def _jobs(self, root: int, at_top: Callable[[str], bool]) -> Iterator[Job | None]:
        """What is to be sent of some names at the top; None when a file needs nothing of its own."""
        packer = Packer()
        for name in run_files(self._run_dir, at_top):
            found = self._read_small(root, name)
            if found is None:
                yield functools.partial(self._send_large, name)
                continue
            data, executable = found
            sha256 = hashlib.sha256(data).hexdigest()
            key = self._reuse.blob(sha256, len(data))
            if key is not None:
                yield functools.partial(self._listed, name, len(data), sha256, executable, key)
            elif self._reuse.use(name, sha256, len(data), executable=executable):
                yield None
            else:
                full = packer.add(name, data, sha256, executable=executable)
                yield None if full is None else functools.partial(self._send_pack, packer, full)
        last = packer.finish()
        if last is not None:
            yield functools.partial(self._send_pack, packer, last)

    def _read_small(self, root: int, name: str) -> tuple[bytes, bool] | None:
        """A small file's bytes and whether it is a program; None for a large one."""
        try:
            handle = os.open(name, _READ, dir_fd=root)
            try:
                found = os.fstat(handle)
                size = found.st_size
                if size > SMALL_BYTES:
                    return None
                data = os.read(handle, size + 1)
            finally:
                os.close(handle)
        except OSError as error:
            raise StoreError(f"cannot read {self._run_dir}/{name}: {error.strerror or error}") from error
        # A read that came back short, or a file that grew meanwhile, is left to the careful way.
        return (data, bool(found.st_mode & stat.S_IXUSR)) if len(data) == size else None

    def _send_large(self, name: str) -> ManifestFile:
        path = self._run_dir / name
        found = digest_file(path)
        key = self._reuse.blob(found.sha256, found.size)
        executable = bool(path.stat().st_mode & stat.S_IXUSR)
        own = self._keys.blob(found.sha256)
        if key is None and self._present.is_young(own, found.size):
            self._sent.reused.add(own)
        elif key is None:
            self._store.put(own, path, sha256=found.sha256)
        return self._listed(name, found.size, found.sha256, executable, key)

    def _listed(self, name: str, size: int, sha256: str, executable: bool, key: str | None) -> ManifestFile:
        if key is not None:
            self._sent.reused.add(key)
        elsewhere = None if key == self._keys.blob(sha256) else key
        return ManifestFile(path=name, size=size, sha256=sha256, object=elsewhere, executable=executable)

    def _send_pack(self, packer: Packer, packed: Packed) -> Callable[[], Pack]:
        pack = packed.pack
        self._put(self._keys.pack(pack.sha256), packed.data)
        packer.give_back(packed)
        return functools.partial(self._send_index, pack, packed.index)

    def _send_index(self, pack: Pack, index: bytes) -> Pack:
        self._put(self._keys.index(pack.index_sha256), index)
        return pack

    def _used_again(self) -> Iterator[Pack]:
        for listing, before, data, pack in self._reuse.indexes():
            key = listing.pack_key(before)
            elsewhere = None if key == self._keys.pack(pack.sha256) else key
            index_elsewhere = None
            if pack.index_sha256 == before.index_sha256:
                index = listing.index_key(before)
                self._sent.reused.add(index)
                index_elsewhere = None if index == self._keys.index(pack.index_sha256) else index
            else:
                self._put(self._keys.index(pack.index_sha256), data)
            self._sent.reused.add(key)
            yield pack.model_copy(update={"object": elsewhere, "index_object": index_elsewhere})

    def _put(self, key: str, data: bytes | memoryview) -> None:
        """Put bytes whose digest, which names them, has just been taken."""
        if self._present.is_young(key, len(data)):
            self._sent.reused.add(key)
        else:
            self._store.put(key, data)
