"""Rosters that are safe, and those that are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.identity import Identity, SealingKey, verify
from consilium.sums.roster import Roster


def publics(n: int) -> dict[str, str]:
    return {f"p{at}": Identity.generate().public.hex() for at in range(n)}


COORDINATOR = Identity.generate().public.hex()


@pytest.mark.parametrize(
    ("n", "colluders", "t", "least"),
    [(2, 0, 2, 2), (3, 0, 3, 3), (3, 1, 3, 3), (10, 0, 7, 7), (10, 5, 8, 8), (50, 0, 34, 34), (250, 80, 167, 167)],
)
def test_defaults(n: int, colluders: int, t: int, least: int) -> None:
    roster = Roster.build(publics(n), COORDINATOR, colluders)
    assert (roster.t, roster.least, roster.c, roster.n) == (t, least, colluders, n)
    assert 2 * roster.t > n + colluders


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"t": 5}, "unknown key"),
        ({"least": 6}, "least 6 must be at least t = 7"),
        ({"least": 11}, "least 11 must be from"),
        ({"c": 6}, "least 7 must be from c [+] 2 = 8 .* at least two honest"),
        ({"version": 2}, "version"),
        ({"collection": "verified"}, "collection"),
        ({"c": "0"}, "c: must be a whole number"),
        ({"more": 1}, "unknown key"),
        ({"parties": []}, "at least 2"),
    ],
)
def test_unsafe_rosters(tmp_path: Path, change: dict, match: str) -> None:
    roster = json.loads(Roster.build(publics(10), COORDINATOR).model_dump_json())
    path = tmp_path / "roster.json"
    path.write_text(json.dumps({**roster, **change}))
    with pytest.raises(ConfigError, match=match):
        load(path, Roster)


PRIME = 2**255 - 19
ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
SMALL = [0, 1, PRIME - 1, PRIME, PRIME + 1, ORDER_8, PRIME - ORDER_8]
"""The y of the points of order 1, 2, 4 and 8 of edwards25519, and their forms that are not canonical."""


@pytest.mark.parametrize("y", SMALL)
def test_a_key_of_small_order(y: int) -> None:
    """Under such a key one signature holds for many messages."""
    keys = {**publics(3), "bad": y.to_bytes(32, "little").hex()}
    with pytest.raises(ConfigError, match="large order"):
        Roster.build(keys, COORDINATOR)
    with pytest.raises(ConfigError, match="large order"):
        Roster.build(publics(3), (y | 2**255).to_bytes(32, "little").hex())


def test_anyone_can_sign_under_a_key_of_small_order() -> None:
    """Why they are refused: S = 0, R = identity verifies under the identity, whatever the message."""
    identity = (1).to_bytes(32, "little")
    assert verify(identity, identity + bytes(32), "any", b"thing")


def test_ids_and_keys_are_unique() -> None:
    keys = publics(3)
    with pytest.raises(ConfigError, match="two nodes have one key"):
        Roster.build({**keys, "again": keys["p0"]}, COORDINATOR)
    with pytest.raises(ConfigError, match="two nodes have one key"):
        Roster.build(keys, keys["p0"])
    roster = json.loads(Roster.build(keys, COORDINATOR).model_dump_json())
    roster["parties"][1]["id"] = "p0"
    with pytest.raises(ValueError, match="two parties have one id"):
        Roster.model_validate_json(json.dumps(roster))


def test_digest_is_of_the_content_not_the_layout(tmp_path: Path) -> None:
    roster = Roster.build(publics(3), COORDINATOR)
    for indent in (0, 1):
        (tmp_path / "roster.json").write_text(roster.model_dump_json(indent=indent))
        assert load(tmp_path / "roster.json", Roster).digest == roster.digest
    order = roster.model_copy(update={"parties": roster.parties[::-1]})
    assert Roster.model_validate_json(order.model_dump_json()).digest != roster.digest


@pytest.mark.parametrize("kind", [Identity, SealingKey])
def test_a_key_file_is_its_owners_and_a_key(tmp_path: Path, kind: type[Identity] | type[SealingKey]) -> None:
    path, key = tmp_path / "key.pem", kind.generate()
    key.save(path)
    assert path.stat().st_mode & 0o777 == 0o600 and b"BEGIN PRIVATE KEY" in path.read_bytes()
    assert kind.load(path).public == key.public
    with pytest.raises(OutputExists):
        kind.generate().save(path)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        kind.load(path)
    path.chmod(0o600)
    for content in (b"", b"no key"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"not an unencrypted .* key in PEM form"):
            kind.load(path)
