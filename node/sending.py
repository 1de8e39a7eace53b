"""Kits on their way to their nodes: sealed with a password, opened, and checked as a whole before they are in place.

scrypt makes the key, AES-256-GCM seals. A sealed file is MAGIC, 16 bytes of salt, 12 of nonce, and the sealed archive
with its tag. The password is made here, with 100 bits, and goes another way than the file: over the telephone. How
costly scrypt is follows from MAGIC, so that no file can make its reader use more memory.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

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
from consilium.protocol.errors import ConfigError, OutputExists, WrongPassword
from consilium.protocol.files import new_here, private_folder, replacing, unreadable, write_private
from consilium.protocol.tls import load_certificate

MAGIC = b"consilium kit 1\n"
SALT_BYTES, NONCE_BYTES = 16, 12
COST = {"n": 2**17, "r": 8, "p": 1}
"""128 MiB and a fraction of a second."""
MOST_BYTES = 1_000_000_000
"""Of an archive: it is sealed in memory, and AES-GCM takes less than 2 GiB at once."""
LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Nothing that is taken for another over the telephone."""
MEANT = str.maketrans("OIL", "011")
GROUPS, GROUP = 4, 5
SENT = "Give the file that the operator sent"


def make_password() -> str:
    """A new one: four groups of five letters, 100 bits."""
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(GROUP)) for _ in range(GROUPS))


def seal(content: bytes, password: str) -> bytes:
    """The content of a sealed file. Raises ConfigError for more than MOST_BYTES."""
    if len(content) > MOST_BYTES:
        raise ConfigError(
            f"{len(content)} bytes are too many to be sealed, {MOST_BYTES} are the most",
            "Send the public rows by themselves, or the kit over a channel that nobody else reads",
        )
    salt, nonce = secrets.token_bytes(SALT_BYTES), secrets.token_bytes(NONCE_BYTES)
    return MAGIC + salt + nonce + AESGCM(_key(password, salt)).encrypt(nonce, content, MAGIC)


def is_sealed(content: bytes) -> bool:
    """Whether this is a sealed file's content."""
    return content.startswith(MAGIC)


def unseal(content: bytes, password: str, path: Path) -> bytes:
    """What was sealed. path: of the file, for errors.

    Raises
    ------
    WrongPassword : the password is another, or the file was altered; which of the two nobody can tell.
    """
    at = len(MAGIC)
    salt, nonce = content[at : at + SALT_BYTES], content[at + SALT_BYTES : at + SALT_BYTES + NONCE_BYTES]
    try:
        if len(nonce) < NONCE_BYTES:
            raise InvalidTag
        return AESGCM(_key(password, salt)).decrypt(nonce, content[at + SALT_BYTES + NONCE_BYTES :], MAGIC)
    except InvalidTag:
        raise WrongPassword(
            f"this password does not open {path}",
            "Have it read out again; if it is right, the file was damaged or altered on its way: have it sent again",
        ) from None


def read_archive(path: Path) -> bytes:
    """A file's content, sealed or not. Raises PathError, ConfigError."""
    try:
        if path.stat().st_size > MOST_BYTES + 1000:
            raise ConfigError(f"{path} has more than {MOST_BYTES} bytes: no kit", SENT)
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, SENT) from None


def _key(password: str, salt: bytes) -> bytes:
    typed = "".join(letter for letter in password.upper().translate(MEANT) if letter.isalnum())
    return Scrypt(salt=salt, length=32, **COST).derive(typed.encode())


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
