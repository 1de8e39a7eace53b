"""Kits on their way to their nodes: opened, and checked as a whole before they are in place."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from consilium.node.keys import IDENTITY, NODE_KEY, SEALING, SERVER_KEY
from consilium.node.kit import KIT_FILE, POLICY_FILE, Kit, node_id, open_kit
from consilium.node.manifest import (
    MANIFEST,
    Manifest,
    authority_fingerprint,
    check_files,
    check_signed,
    digests_of,
    is_setting,
    read_manifest,
)
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import private_folder, replacing, unreadable
from consilium.protocol.tls import load_certificate

MOST_BYTES = 1_000_000_000
"""Of an archive: it is read as a whole."""
SENT = "Give the file that the operator sent"


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{path} has more than {MOST_BYTES} bytes: no kit", SENT)
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, SENT) from None


MOST_FILES, MOST_UNPACKED = 100, 4_000_000_000
SECRET = frozenset({IDENTITY, NODE_KEY, SEALING, SERVER_KEY, "client.key", "ca.key"})
"""What no update ever brings: private keys. Whose public ones a kit lists, it may change: others than are there start
nothing (`keys.check_listed`)."""
ASK = "Do not use it, and ask the operator, by telephone, what was sent"


@dataclass(frozen=True)
class OpenedKit:
    """A kit that is now in place. authority: the fingerprint that is compared over the telephone."""

    folder: Path
    node: str
    version: int
    update: bool
    files: tuple[str, ...]
    authority: str


def open_archive(content: bytes, name: str, into: Path) -> OpenedKit:
    """Unpack an archive: as an update where `into` is a kit, else as a new kit in the folder `into`.

    name: of the file, for errors. An update may be unpacked again, which does nothing.

    Raises
    ------
    ConfigError : no archive of the operator's, not signed, altered, of another node or federation, or older than what
        is there. OutputExists : a new kit's folder is there.
    """
    update = (into / KIT_FILE).exists()
    into.parent.mkdir(parents=True, exist_ok=True)
    with _staged(content, name, into) as staged:
        return _update(staged, name, open_kit(into)) if update else _new(staged, name, into)


def _new(staged: Path, name: str, into: Path) -> OpenedKit:
    folders = list(staged.iterdir())
    if len(folders) != 1 or not (folders[0] / KIT_FILE).is_file():
        raise ConfigError(f"{name} holds no kit", "Give an update together with the folder of the kit that it is for")
    kit = open_kit(folders[0])
    manifest = check_signed(kit)
    check_files(kit.folder, manifest.settings)
    if (kit / POLICY_FILE).exists():
        raise ConfigError(f"{name} holds {POLICY_FILE}: what a node allows, its own people say", ASK)
    unlisted = digests_of(kit.folder).keys() - {*manifest.files, *manifest.settings}
    if unlisted:
        raise ConfigError(f"{name} holds {min(unlisted)}, which the authority did not sign", ASK)
    target = into / kit.folder.name
    if target.exists():
        raise OutputExists(f"{target} is already there", "Unpack into another folder: keys are never overwritten")
    into.mkdir(mode=0o700, exist_ok=True)
    shutil.move(kit.folder, target)
    target.chmod(0o700)  # unpacking gives folders the usual mode
    private_folder(target / "state")  # a service may write there and nowhere else, so it must be there
    return OpenedKit(
        target, manifest.node, manifest.version, False, tuple(sorted(manifest.files)), _authority(target / "ca.crt")
    )


def _update(staged: Path, name: str, kit: Kit) -> OpenedKit:
    found = digests_of(staged)
    secret = sorted(SECRET & found.keys())
    if secret:
        raise ConfigError(f"{name} holds {secret[0]}: an update has no keys", ASK)
    if POLICY_FILE in found:
        raise ConfigError(f"{name} holds {POLICY_FILE}: what a node allows, its own people say", ASK)
    manifest = read_manifest(staged, kit.authority)
    if manifest is None:
        raise ConfigError(f"{name} is no signed update of a kit", "Give the NODE.tar.gz out of the operator's updates")
    own = node_id(kit.kind, kit.name)
    if manifest.node != own:
        raise ConfigError(f"{name} is an update of {manifest.node}, the kit is that of {own}", "Take this node's own")
    _check_newer(manifest, kit, name)
    settings = sorted(file for file in found if is_setting(file))
    wrong = [*settings, *(file for file in sorted(found) if found[file] != manifest.files.get(file))]
    if wrong:
        raise ConfigError(f"{name}: {wrong[0]} is not as the authority signed it", ASK)
    try:
        check_files(kit.folder, {file: digest for file, digest in manifest.files.items() if file not in found})
    except ConfigError as error:
        raise ConfigError(error.what, "Unpack the earlier updates first, in the order of their numbers") from None
    for file in (*sorted(found), MANIFEST):  # the manifest last: before that, the kit says itself what is missing
        with replacing(kit / file) as written:
            written.write((staged / file).read_bytes())
    return OpenedKit(kit.folder, own, manifest.version, True, tuple(sorted(found)), _authority(kit.authority))


def _check_newer(manifest: Manifest, kit: Kit, name: str) -> None:
    there = read_manifest(kit.folder, kit.authority)
    if there is not None and manifest.version < there.version:
        raise ConfigError(
            f"{name} is update {manifest.version:04d}, the kit has {there.version:04d} already",
            "Nothing to do: what was changed later is in the newer one",
        )


def _authority(path: Path) -> str:
    return authority_fingerprint(load_certificate(path))


@contextmanager
def _staged(content: bytes, name: str, into: Path) -> Iterator[Path]:
    """The files of an archive in a private folder on the disk of their place, which is gone when the context ends.

    Only plain files, in one folder at most, and not more than a kit can have.
    """
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=into if into.is_dir() else into.parent) as place:
        try:
            with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
                members: dict[PurePosixPath, tarfile.TarInfo] = {}
                size = 0
                for member in archive:
                    size += member.size
                    plain = member.isfile() or member.isdir()
                    path = PurePosixPath(member.name)
                    deep = len(path.parts) > 2 or path.is_absolute() or ".." in path.parts
                    twice = path in members
                    members[path] = member
                    if not plain or deep or twice or len(members) > MOST_FILES or size > MOST_UNPACKED:
                        raise ConfigError(f"{name} holds what no kit has: {path.name[:60]!r}", ASK)
                for member in members.values():
                    _write(archive, member, Path(place))
        except (tarfile.TarError, EOFError, ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise ConfigError(f"{name} is no whole .tar.gz", "Have it sent again") from None
        yield Path(place)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    """One plain file or folder, for its owner to write and no one else. By hand, because Python 3.11.2, as it is in
    Debian 12, has no `extractall(filter="data")` yet."""
    target, content = place / member.name, archive.extractfile(member)
    if content is None:
        target.mkdir(mode=0o700, exist_ok=True)
        return
    target.parent.mkdir(mode=0o700, exist_ok=True)
    with content, open(target, "xb") as file:
        shutil.copyfileobj(content, file)
    target.chmod(member.mode & 0o755 | 0o600)


def open_file(path: Path, into: Path) -> OpenedKit:
    """Unpack a kit or an update, see `open_archive`. Raises PathError, ConfigError, OutputExists."""
    return open_archive(_content(path), path.name, into)
