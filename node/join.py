"""`consilium node join FOLDER`: the operator's signed folder, checked as a whole and copied into a node's own."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from consilium.node.folder import (
    FEDERATION_FILE,
    NODE_FILE,
    POLICY_FILE,
    SIGNED_FILE,
    THE_COORDINATOR,
    NodeFolder,
    a_node,
    open_folder,
)
from consilium.node.keys import NOT_OURS, OwnKeys
from consilium.node.signed import (
    AGAIN,
    ASK,
    MOST_BYTES,
    MOST_SMALL_BYTES,
    F,
    FederationFile,
    SignedFolder,
    open_plain,
    read_signed,
)
from consilium.protocol.config_files import load, read_table
from consilium.protocol.errors import ConfigError, PathError
from consilium.protocol.files import private_folder, replace_text, replacing

POLICY = """# What {node} {name} allows, in its own people's words: nothing beyond these lines is ever done.
# `consilium node start` asks for each that is missing, and writes it here after a yes. See docs/deploy.md.
"""


JOIN = "Join the folder that the operator sent: consilium node join FOLDER"


def find_folder(here: Path) -> NodeFolder:
    """`here`, or the one node's folder in it. Raises ConfigError: there is none, or there are several."""
    found = [here] if (here / NODE_FILE).is_file() else sorted(path.parent for path in here.glob(f"*/{NODE_FILE}"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise ConfigError(
            f"{here.resolve()} has not the folder of one node: {names}",
            "Run this where `consilium node keys` was run, or say which with --node FOLDER",
        )
    return open_folder(found[0])


def join(sent: Path, folder: NodeFolder) -> SignedFolder[FederationFile]:
    """Check a signed folder, and take it over. Nothing is changed where a check does not hold; again does nothing.
    Raises ConfigError: the folder is not as its authority signed it; it is of another authority than the one before,
    older, or another of the same version; it does not list this node with its own keys; its roster has others; or it
    says what this node allows; PathError: it cannot be read."""
    earlier = None
    with suppress(ConfigError, PathError):  # a copy that broke off is mended by the same folder
        earlier = load(folder.federation / FEDERATION_FILE, FederationFile)
    signed = read_signed(sent, authority=folder.authority if folder.authority.exists() else None)
    if earlier and signed.file.version < earlier.version:
        raise ConfigError(
            f"{sent} is version {signed.file.version}, version {earlier.version} was joined here already",
            "Nothing is to be done: what was changed later is in the newer one",
        )
    if earlier and signed.file.version == earlier.version and signed.file != earlier:
        raise ConfigError(f"{sent} is another version {earlier.version} than the one that was joined here", ASK)
    check_listed(signed.file, folder)
    signed.file.sum_roster()
    if (policy := sent / POLICY_FILE).exists():
        open_plain(policy, MOST_SMALL_BYTES).close()
        if read_table(policy):
            raise ConfigError(f"{policy} holds limits: what a node allows, its own people say", ASK)
    names = (*(name for name in sorted(signed.files) if name != FEDERATION_FILE), FEDERATION_FILE, SIGNED_FILE)
    with tempfile.TemporaryDirectory(dir=folder.path, prefix="federation.") as place:
        copy = Path(place)
        for name in names:
            most = MOST_BYTES.get(name, MOST_SMALL_BYTES)
            with open_plain(sent / name, most) as source, replacing(copy / name) as file:
                shutil.copyfileobj(source, file)
        joined = read_signed(copy)
        if joined.files != signed.files:  # what was checked is what is joined, whoever else writes to the folder
            raise ConfigError(f"{sent} was changed while it was read", AGAIN)
        private_folder(folder.federation)
        for name in names:
            (copy / name).replace(folder.federation / name)
    certificate = joined.file.certificates.get(folder.name)
    if certificate is not None:
        replace_text(folder.tls.certificate, certificate)
    if not folder.policy_file.exists() and folder.kind in ("party", "aggregator"):
        replace_text(folder.policy_file, POLICY.format(node=folder.kind, name=folder.name))
    return joined


def joined(folder: NodeFolder, model: type[F] = FederationFile) -> F:
    """The federation that a node joined, all of it as signed. Raises ConfigError: none yet, or altered since."""
    if not (folder.federation / SIGNED_FILE).is_file():
        raise ConfigError(f"{folder.path} has joined no federation", JOIN)
    asks = folder.kind in (THE_COORDINATOR, "student")  # others never open the rows, and do this for each message
    return read_signed(folder.federation, model, rows=asks).file


def check_listed(file: FederationFile, folder: NodeFolder) -> None:
    """Raise ConfigError unless the federation has this node, with its own keys."""
    listed, own = file.nodes.get(folder.name), OwnKeys.load(folder).public
    if folder.name in file.revoked:
        raise ConfigError(f"{folder.name} was revoked: it takes no part any more", "Talk to the federation's operator")
    if listed is None:
        raise ConfigError(
            f"this federation lists no {folder.kind} {folder.name!r}",
            f"Send {folder.name}.enrol.json to the operator, and join the folder that comes back",
        )
    if listed != own:
        raise ConfigError(
            f"{a_node(listed.kind)} {folder.name!r} is listed with keys {listed.fingerprint(folder.name)}, this"
            f" node's are {own.fingerprint(folder.name)}",
            NOT_OURS,
        )
