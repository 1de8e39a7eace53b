"""Kits as files on their way: sealed beside their archive, and opened where they are to run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import new_here, unreadable, write_private
from consilium.protocol.node.sealing import is_sealed, make_password, read_archive, seal, unseal
from consilium.protocol.node.unpacking import OpenedKit, open_archive

SEALED = ".sealed"


def seal_all(archives: Sequence[Path], passwords: Path) -> list[Path]:
    """Write ARCHIVE.sealed beside each archive, and a line with its name and new password to the end of `passwords`.

    Raises
    ------
    PathError : an archive cannot be read. OutputExists : one is sealed already. ConfigError : one is sealed itself.
    """
    contents = {archive: read_archive(archive) for archive in archives}
    targets = {archive: archive.with_name(archive.name + SEALED) for archive in contents}
    for archive, content in contents.items():
        if is_sealed(content):
            raise ConfigError(f"{archive} is sealed already", "Give the .tar.gz")
        if targets[archive].exists():
            raise OutputExists(f"{targets[archive]} is already there", "Remove it if its password is lost")
    made = {archive: make_password() for archive in contents}
    with new_here(passwords, *targets.values()):
        _append(passwords, "".join(f"{targets[archive].name}  {made[archive]}\n" for archive in made))
        for archive, password in made.items():
            write_private(targets[archive], seal(contents[archive], password))
    return list(targets.values())


def open_file(path: Path, into: Path, password: Path | Callable[[], str]) -> OpenedKit:
    """Unpack a kit or an update, see `unpacking.open_archive`. password: its file, or what asks for it if needed.

    Raises
    ------
    WrongPassword, PathError, ConfigError, OutputExists
    """
    content = read_archive(path)
    if is_sealed(content):
        content = unseal(content, _read(password) if isinstance(password, Path) else password(), path)
    return open_archive(content, path.name, into)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no text in UTF-8", "Put the password into it, and nothing else") from None


def _append(path: Path, text: str) -> None:
    """Add to a file that its owner alone can read; it is on disk when this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
