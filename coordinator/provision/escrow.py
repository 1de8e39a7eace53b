"""The operator's folder in escrow: enough holders together bring it back, fewer learn nothing of it.

An X25519 key is made, shared among the holders (Shamir; `sums.masks.shares`), and forgotten. Its public half stays with
the operator: every change of the kits seals the folder to it anew, so that shares are handed out once and the sealed
file may lie anywhere. Whoever knows the public half could seal a folder of their own: what comes back must hold the key
of the authority that the shares name.
"""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field

from consilium.coordinator.provision.authority import Authority
from consilium.coordinator.provision.registry import OPERATOR, UPDATES, load_registry
from consilium.node.manifest import authority_fingerprint
from consilium.protocol.config_files import load
from consilium.protocol.digests import Hash
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import new_here, private_folder, replacing, unreadable, write_private
from consilium.protocol.identity import digest, frame
from consilium.protocol.messages import PartyName
from consilium.protocol.models import Frozen
from consilium.sums.aggregators.sealing import seal_once, unseal_once
from consilium.sums.agreement import Agreement, new_private, public_of
from consilium.sums.masks.shares import combine, lagrange, random_scalar, share_bytes, share_value, split

ESCROW, SEALED, SHARE = "escrow.json", "operator.escrow", ".share.json"
FOLDER = "escrow"
COPY = "Use another copy of it"
MAGIC = b"consilium escrow 1\n"
KEY_BYTES = 32
MOST_HOLDERS, MOST_BYTES = 100, 1_000_000_000
MOST_UNPACKED = 4_000_000_000
MOST_TRIES = 10_000
"""Choices of shares that are tried where some fit and others do not."""


class Escrow(Frozen):
    """The file operator/escrow.json: to whom, how many of them it takes, and the public key."""

    format: Literal[1] = 1
    public: Hash
    threshold: int = Field(ge=2, le=MOST_HOLDERS)
    holders: tuple[PartyName, ...] = Field(min_length=2, max_length=MOST_HOLDERS)


class HeldShare(Frozen):
    """The file HOLDER.share.json, which its holder keeps to itself. share: 32 bytes, as `share_bytes` has them.
    authority: its fingerprint. check: of all else, so that a mistake in copying is seen."""

    format: Literal[1] = 1
    federation: str = Field(max_length=100)
    authority: str = Field(max_length=100)
    holder: PartyName
    place: int = Field(ge=1, le=MOST_HOLDERS)
    threshold: int = Field(ge=2, le=MOST_HOLDERS)
    public: Hash
    share: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
    check: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")] = "0" * 16

    @property
    def right_check(self) -> str:
        """What `check` has to be."""
        named = f"{self.federation}\n{self.authority}\n{self.holder}\n{self.place}\n{self.threshold}"
        return digest("escrow-share", named.encode(), bytes.fromhex(self.public + self.share)).hex()[:16]


@dataclass(frozen=True)
class MadeEscrow:
    """shares: a file for each holder. sealed: the operator's folder, sealed."""

    shares: tuple[Path, ...]
    sealed: Path


@dataclass(frozen=True)
class OperatorFolder:
    """An operator's folder that came back. federation, version: of its registry. authority: its fingerprint. unfit:
    holders whose shares do not fit the others'."""

    kits: Path
    federation: str
    version: int
    authority: str
    unfit: tuple[str, ...]


def put_in_escrow(kits: Path, holders: Sequence[str], threshold: int) -> MadeEscrow:
    """Shares for the holders, any `threshold` of whom bring `kits`/operator back, and the first sealed file.

    Raises
    ------
    ConfigError : no folder of an operator, fewer than two holders or more than there can be, the same one twice, a
        threshold that is below two or above their number. OutputExists : there is an escrow.
    """
    registry, authority = load_registry(kits), Authority.load(kits / OPERATOR)
    place = kits / OPERATOR / ESCROW
    if place.exists():
        raise OutputExists(
            f"{kits} is in escrow with {', '.join(load(place, Escrow).holders)}",
            f"For other holders move {place} and {kits / FOLDER} away; former shares open what was sealed until then",
        )
    if len({*holders}) < len(holders) or not 2 <= threshold <= len(holders) <= MOST_HOLDERS:
        raise ConfigError(
            f"{len({*holders})} holders of whom {threshold} are needed cannot be",
            f"Name 2 to {MOST_HOLDERS} different holders, and --threshold from 2 to their number",
        )
    secret = random_scalar()
    public = public_of(_private(secret)).hex()
    escrow = Escrow(public=public, threshold=threshold, holders=tuple(holders))
    shares = [
        HeldShare(
            federation=registry.plan.federation.name,
            authority=authority_fingerprint(authority.certificate),
            holder=holder,
            place=number,
            threshold=threshold,
            public=public,
            share=share_bytes(value).hex(),
        )
        for number, (holder, value) in enumerate(
            zip(holders, split(secret, threshold, range(1, len(holders) + 1)), strict=True), 1
        )
    ]
    folder = kits / FOLDER
    paths = tuple(folder / f"{share.holder}{SHARE}" for share in shares)
    with new_here(place, *paths):
        private_folder(folder)
        for share, path in zip(shares, paths, strict=True):
            whole = share.model_copy(update={"check": share.right_check})
            write_private(path, (whole.model_dump_json(indent=1) + "\n").encode())
        write_private(place, (escrow.model_dump_json(indent=1) + "\n").encode())
        return MadeEscrow(paths, _seal(kits, escrow))


def seal_again(kits: Path) -> Path | None:
    """Write `kits`/escrow/operator.escrow as the folder is now; None where it is not in escrow."""
    place = kits / OPERATOR / ESCROW
    return _seal(kits, load(place, Escrow)) if place.exists() else None


def _seal(kits: Path, escrow: Escrow) -> Path:
    public, once = bytes.fromhex(escrow.public), new_private()
    content = _packed(kits)
    if len(content) > MOST_BYTES:
        raise ConfigError(
            f"{kits / OPERATOR} and {UPDATES} are too large to be sealed: {len(content)} bytes, at most {MOST_BYTES}",
            "Keep a copy of it in a safe in place of an escrow",
        )
    target = private_folder(kits / FOLDER) / SEALED
    with replacing(target, mode=0o600) as file:
        file.write(MAGIC + public + public_of(once) + seal_once(once, public, content, _bound(public)))
    return target


def recover(sealed: Path, shares: Sequence[Path], kits: Path) -> OperatorFolder:
    """The operator's folder and updates in the new folder `kits`, from the sealed file and enough shares.

    Shares that do not fit the others are left out and named, where enough are left.

    Raises
    ------
    PathError, ConfigError : a file cannot be read, is damaged or is of another escrow; the shares are too few or do not
        fit; or the folder that was sealed has not the key of the authority that the shares name. OutputExists.
    """
    if kits.exists():
        raise OutputExists(f"{kits} is already there", "Choose another folder: keys are never overwritten")
    held = _read_shares(shares)
    content = _read_sealed(sealed, held[0])
    private, unfit = _key_of(held)
    folder = unseal_once(
        Agreement(private), public_of(private), content[:KEY_BYTES], content[KEY_BYTES:], _bound(public_of(private))
    )
    if folder is None:
        raise ConfigError(f"{sealed} was damaged or altered", COPY)
    part = kits.with_name(kits.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        _unpack(folder, private_folder(part), sealed)
        authority, registry = Authority.load(part / OPERATOR), load_registry(part)
        shown = authority_fingerprint(authority.certificate)
        if shown != held[0].authority:
            raise ConfigError(
                f"{sealed} has not the key of the authority {held[0].authority}",
                "Somebody sealed another folder: use another copy, and find out whose this one was",
            )
        part.rename(kits)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)  # it holds keys
        raise
    return OperatorFolder(kits, registry.plan.federation.name, registry.version, shown, unfit)


def _read_shares(paths: Sequence[Path]) -> list[HeldShare]:
    held = [load(path, HeldShare) for path in paths]
    for path, share in zip(paths, held, strict=True):
        if share.check != share.right_check:
            raise ConfigError(f"{path} was damaged or altered", f"Ask {share.holder} for it again")
    if len({(share.public, share.authority, share.threshold) for share in held}) > 1:
        raise ConfigError("the shares are of different escrows", "Give those that were made together")
    threshold = held[0].threshold if held else 2
    if (places := len({share.place for share in held})) < threshold:
        raise ConfigError(f"{places} different shares, {threshold} are needed", "Give --share for each holder's")
    return held


def _read_sealed(path: Path, share: HeldShare) -> bytes:
    """What follows the public key of the escrow."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, f"Give the {SEALED} that lies beside the kits, or a copy") from None
    public, rest = content[len(MAGIC) : len(MAGIC) + KEY_BYTES], content[len(MAGIC) + KEY_BYTES :]
    if not content.startswith(MAGIC) or len(rest) < KEY_BYTES:
        raise ConfigError(f"{path} is no sealed folder of an operator", f"Give an {SEALED}")
    if public.hex() != share.public:
        raise ConfigError(f"{path} was not sealed to these shares", "Give those that were made with it")
    return rest


def _key_of(held: Sequence[HeldShare]) -> tuple[bytes, tuple[str, ...]]:
    """The private key, and the holders whose shares do not fit."""
    different = list({share.place: share for share in held}.values())
    for chosen in islice(combinations(different, held[0].threshold), MOST_TRIES):
        if (private := _opened(chosen)) is not None:
            others = [share for share in different if share not in chosen]
            return private, tuple(share.holder for share in others if _opened((share, *chosen[1:])) is None)
    raise ConfigError(
        f"no {held[0].threshold} of these {len(different)} shares fit together", "Ask the holders for them again"
    )


def _opened(chosen: Sequence[HeldShare]) -> bytes | None:
    """The private key, if these shares give it."""
    values = [share_value(bytes.fromhex(share.share)) for share in chosen]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    private = _private(combine(lagrange([share.place for share in chosen]), known))
    return private if public_of(private).hex() == chosen[0].public else None


def _private(secret: int) -> bytes:
    """The X25519 key of a shared number."""
    return digest("escrow-key", share_bytes(secret))


def _bound(public: bytes) -> bytes:
    return frame("escrow-folder", MAGIC, public)


def _packed(kits: Path) -> bytes:
    """The operator's folder, and the updates that nodes may not have opened yet."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder in (OPERATOR, UPDATES):
            for path in sorted((kits / folder).rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(kits).as_posix())
    return buffer.getvalue()


def _unpack(content: bytes, folder: Path, sealed: Path) -> None:
    """Plain files below `folder`, for their owner alone."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            large = sum(info.file_size for info in archive.infolist()) > MOST_UNPACKED
            for info in archive.infolist():
                path = PurePosixPath(info.filename)
                if path.is_absolute() or ".." in path.parts or info.is_dir() or large:
                    raise ConfigError(f"{sealed} holds what no operator's folder has: {info.filename[:60]!r}", COPY)
                for parent in reversed(path.parents):
                    private_folder(folder / parent)
                write_private(folder / path, archive.read(info))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError):
        raise ConfigError(f"{sealed} holds no folder", COPY) from None
