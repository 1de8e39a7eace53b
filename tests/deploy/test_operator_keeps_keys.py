"""An operator that kept all that it ever made, and lies: it has no key of a party that made its own."""

from __future__ import annotations

import base64
import shutil
import tarfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

from consilium.coordinator.provision import kits
from consilium.node import keys as own_keys
from consilium.node.checks import examine
from consilium.node.kit import open_kit
from consilium.party.deployed import PARTY
from consilium.protocol.errors import ConfigError
from tests.deploy.kits import PARTIES, accept_kit, plan_table, write_plan

OWN, MADE = "ward-a", "ward-b"
"""The party that made its own keys, and one whose keys the operator made."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A mixed federation: `hospital` is at the party, `kits` is all that the operator ever had. No kit was joined."""
    folder = tmp_path_factory.mktemp("operator")
    own_keys.make("party", OWN, folder / "hospital").save(folder / f"{OWN}.enrol.json")
    plan = plan_table(collection="secure")
    plan["party"][0]["keys"] = f"{OWN}.enrol.json"
    made = kits.make(write_plan(folder, **plan), folder / "kits")
    assert list(made.enrolled) == [OWN]
    kits.add_party(folder / "kits", "ward-d")  # later changes write files too
    return folder


def everything(out: Path) -> list[bytes]:
    """The content of every file that the operator wrote, and of every file in its archives."""
    found = []
    for path in out.rglob("*"):
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                found += [file.read() for item in archive if (file := archive.extractfile(item))]
        if path.is_file():
            found.append(path.read_bytes())
    return found


def forms(secret: bytes) -> list[bytes]:
    """Raw, reversed, in hex, and in base64 wherever it may begin in a longer file."""
    shifted = [
        base64.b64encode(bytes(at) + secret)[-(-at * 8 // 6) : (at + len(secret)) * 8 // 6] for at in range(3)
    ]  # without the characters that hold bits of a neighbour
    return [secret, secret[::-1], secret.hex().encode(), secret.hex().upper().encode(), *shifted]


def secrets_in(keys: Path) -> list[bytes]:
    """The two secret numbers of a party, as files hold them: OpenSSH writes a number without zeros before it."""
    identity = load_pem_private_key((keys / "identity.pem").read_bytes(), password=None)
    node = load_ssh_private_key((keys / "node.key").read_bytes(), password=None)
    assert isinstance(identity, Ed25519PrivateKey)
    assert isinstance(node, ec.EllipticCurvePrivateKey)
    return [identity.private_bytes_raw(), node.private_numbers().private_value.to_bytes(48, "big").lstrip(b"\0")]


def holds(contents: list[bytes], secret: bytes) -> bool:
    return any(form in content.replace(b"\n", b"") for content in contents for form in forms(secret))


def test_no_private_key_of_the_party_is_anywhere_in_what_the_operator_has(folder: Path) -> None:
    contents = everything(folder / "kits")
    assert [holds(contents, secret) for secret in secrets_in(folder / "hospital")] == [False, False]
    # control: the same search finds both keys of a party whose keys were made there, by any of the forms
    assert [holds(contents, secret) for secret in secrets_in(folder / "kits" / f"party-{MADE}")] == [True, True]
    for secret in secrets_in(folder / "hospital"):
        assert all(holds([b"x" * at + base64.b64encode(b"y" * at + secret + b"z")], secret) for at in range(4))


def roster_level(kit: Path) -> str:
    return next(item.level for item in examine(PARTY.checks(open_kit(kit), True)) if item.name == "roster")


def test_parties_that_compare_find_a_roster_that_is_not_everybodys(folder: Path, tmp_path: Path) -> None:
    """The operator enrols a key of its own as OWN's, and tells OWN the truth and the others the lie."""
    truth, lie = tmp_path / "truth", tmp_path / "lie"
    shutil.copytree(folder / "kits", truth)
    kits.make(write_plan(tmp_path, collection="secure"), lie)
    shutil.copytree(truth / f"party-{OWN}", tmp_path / "own")
    own, other = open_kit(tmp_path / "own"), open_kit(lie / f"party-{MADE}")
    PARTY.join(own, folder / "hospital")
    for kit in (own, other):
        accept_kit(kit.folder)

    # control: no kit shows by itself that anything is wrong
    assert [roster_level(own.folder), roster_level(other.folder)] == ["ok", "ok"]
    assert PARTY.fingerprints(own).parties == PARTY.fingerprints(other).parties == PARTIES
    assert PARTY.fingerprints(own).roster != PARTY.fingerprints(other).roster

    # and if OWN is told the lie too: its software finds another key in its own name
    shutil.copy(other / "roster.json", own / "roster.json")
    with pytest.raises(ConfigError, match="another signing key"):
        PARTY.fingerprints(own)
    # even where the operator enrols it and sends the private keys along, as if this were the party's kit
    with pytest.raises(ConfigError, match="not made for keys of your own"):
        PARTY.join(open_kit(lie / f"party-{OWN}"), folder / "hospital")
