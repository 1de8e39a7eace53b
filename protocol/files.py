"""Files that a node writes: whole or not at all, private where they must be, on disk when that is said; locks."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from consilium.protocol.databases import Trouble, trouble_of
from consilium.protocol.errors import ConfigError, ConsiliumError, OutputExists, PathError, StorageError

MOST_DESCRIPTORS = 65_536
_ATTEMPTS, _PAUSE = 10, 0.05
"""At a lock, and seconds between two of them."""
PATHS = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENAMETOOLONG}
)
"""The path is another one than was meant, or another user's."""


def typed(error: OSError, path: Path | None = None, action: str = "", verb: str = "use") -> ConsiliumError | None:
    """What an error of the system means to the user; None where it is about no file.

    path: what was to be written; an error that names a file itself is about that one. action: what to do once the disk
    has room again. verb: what was to be done with a path that cannot be used.

    >>> typed(OSError(28, "No space left on device"), Path("runs/one"))
    StorageError('cannot write runs/one: No space left on device. Make room on it, and try again')
    """
    name = error.filename if isinstance(error.filename, str | bytes) else path
    where = "the output" if name is None else os.fsdecode(name)
    trouble = trouble_of(error)
    if trouble in (Trouble.FULL, Trouble.BROKEN):
        reason = error.strerror or trouble.sentence
        return StorageError(f"cannot write {where}: {reason}", action or f"{trouble.cure}, and try again")
    if error.errno == errno.EEXIST:
        return OutputExists(f"{where} is already there", "Choose another name, or move it away")
    if error.errno in PATHS:
        return PathError(f"cannot {verb} {where}: {error.strerror}", "Check the path, and who may read and write there")
    return None


def unreadable(path: Path, error: OSError, action: str = "Check the path") -> PathError:
    """The error for a file that was to be read."""
    return PathError(f"cannot read {path}: {error.strerror or 'the file is damaged'}", action)


@contextmanager
def writing(path: Path, action: str = "") -> Generator[None]:
    """What the system refuses while `path`, or a file in it, is written, as a typed error. See `typed`."""
    try:
        yield
    except OSError as error:
        meant = typed(error, path, action, "write")
        if meant is None:
            raise
        raise meant from error


def write_private(path: Path, content: bytes) -> None:
    """Write a new file with mode 0600; on disk when this returns. Raises OutputExists: no key is overwritten."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise OutputExists(f"{path} is already there", "Move it away if you mean to replace it") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)  # half a key is none, and would stand in the way of a whole one
        raise


def check_new(path: Path) -> None:
    """Raise OutputExists if something is there."""
    if path.exists():
        raise OutputExists(f"output folder {path} exists already", "Choose another with --out, or remove it")


@contextmanager
def replacing(path: Path, mode: int = 0o666, part: str = "") -> Generator[BinaryIO]:
    """A file to write to that takes the place of `path`, and is on disk, when the context ends without an error. A
    reader, or a crash, sees the old content or the new. After an error `path` is what it was. mode: of the new file,
    less what the process masks. part: name of what is being written, where several processes may write."""
    temporary = path.with_name(part or path.name + ".part")
    temporary.unlink(missing_ok=True)  # of a crash, and perhaps with another mode
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and str(error.filename) == str(temporary):
            error.filename = str(path)  # nobody has named the temporary file
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # of the name
    finally:
        os.close(folder)


def replace_text(path: Path, text: str) -> None:
    """Replace a text file, see `replacing`; the new text is on disk when this returns."""
    with replacing(path) as file:
        file.write(text.encode())


def replace_private(path: Path, content: str | bytes) -> None:
    """Replace a file that nobody but its owner may read, mode 0600; the content is on disk when this returns."""
    with replacing(path, 0o600) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def for_its_owner_alone() -> Generator[None]:
    """Whatever this process makes while the context is open, libraries' files too, nobody else may read."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def append_private(path: Path) -> TextIO:
    """A text file to append to that nobody but its owner may read."""
    file = open(path, "a", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        os.fchmod(file.fileno(), 0o600)
    return file


def read_private(path: Path) -> bytes:
    """Content of a key file. Raises PathError: no such file. ConfigError: others than its owner may read it."""
    try:
        if others_may_read(path):
            raise ConfigError(f"{path}: others than its owner may use this key", f"Run: chmod 600 {path}")
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, "Correct the path, or restore the key from the node's newest backup") from None


def others_may_read(path: Path) -> bool:
    """Whether the mode gives group or others anything."""
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def private_folder(path: Path) -> Path:
    """The folder, made with mode 0700 where it is missing."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


@contextmanager
def held(path: Path, holder: str) -> Generator[None]:
    """Hold a lock file while the context is open; the system gives it back however its holder dies. Raises ConfigError:
    another process holds it. Its time of change is when the one that holds it began."""
    with open(path, "a", encoding="utf-8") as file:  # "w" would change it for one that is refused, too
        for _ in range(_ATTEMPTS):  # whoever looks whether it is held has it for a moment
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(_PAUSE)
        else:
            raise ConfigError(f"{holder} is already started", "Stop it first")
        os.utime(path)
        yield


def is_held(path: Path) -> bool:
    """Whether a process holds this lock file now."""
    if not path.exists():
        return False
    with open(path, encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def more_descriptors() -> None:
    """Let this process open as many files and sockets as the system lets it; what is set at first is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
