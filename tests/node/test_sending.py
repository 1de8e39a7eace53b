"""Kits under a password: it opens what it sealed, however it is typed, and nothing else opens it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from consilium.node import sending
from consilium.node.sending import LETTERS, is_sealed, make_password, open_file, seal, seal_all, unseal
from consilium.protocol.errors import ConfigError, OutputExists, PathError, WrongPassword

CONTENT, PASSWORD = b"keys of a node", "0AB1C-DEFGH-JKMNP-QRSTV"
FILE = Path("x.sealed")


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scrypt with a thousandth of its cost."""
    monkeypatch.setitem(sending.COST, "n", 2**7)


TYPED = [
    PASSWORD,
    PASSWORD.lower(),
    PASSWORD.replace("-", " "),
    PASSWORD.replace("-", "") + "\n",
    "oabic-defgh-jkmnp-qrstv",
]


@pytest.mark.parametrize("typed", TYPED)
def test_a_password_opens_however_it_is_typed(typed: str) -> None:
    assert unseal(seal(CONTENT, PASSWORD), typed, FILE) == CONTENT


def flipped(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


ALTERED = {
    "another password": (lambda content: content, PASSWORD[:-1] + "W"),
    "no password": (lambda content: content, ""),
    "salt": (lambda content: flipped(content, 16), PASSWORD),
    "nonce": (lambda content: flipped(content, 32), PASSWORD),
    "content": (lambda content: flipped(content, 50), PASSWORD),
    "tag": (lambda content: flipped(content, -1), PASSWORD),
    "cut": (lambda content: content[:-1], PASSWORD),
    "only its beginning": (lambda content: content[:20], PASSWORD),
}


@pytest.mark.parametrize("case", ALTERED)
def test_nothing_else_opens_it(case: str) -> None:
    alter, password = ALTERED[case]
    content = alter(seal(CONTENT, PASSWORD))
    assert is_sealed(content)
    with pytest.raises(WrongPassword, match=r"does not open x\.sealed.*altered"):
        unseal(content, password, FILE)


def test_a_password_has_a_hundred_bits_and_no_letter_twice_in_two() -> None:
    made = {make_password() for _ in range(100)}
    assert len(made) == 100
    assert {len(password.replace("-", "")) for password in made} == {20} and len(LETTERS) == 32
    assert set("".join(made)) <= {*LETTERS, "-"}


def test_the_cost_is_not_small_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert sending.COST["n"] * sending.COST["r"] * 128 >= 2**27  # bytes


def test_passwords_are_kept_for_the_operator_alone(tmp_path: Path) -> None:
    archives = [tmp_path / "a.tar.gz", tmp_path / "b.tar.gz"]
    for archive in archives:
        archive.write_bytes(b"the archive of " + archive.name.encode())
    kept = tmp_path / "passwords.txt"
    assert seal_all(archives[:1], kept) == [tmp_path / "a.tar.gz.sealed"]
    seal_all(archives[1:], kept)
    found = dict(line.split() for line in kept.read_text().splitlines())
    assert sorted(found) == ["a.tar.gz.sealed", "b.tar.gz.sealed"]
    for name, password in found.items():
        path = tmp_path / name
        assert unseal(path.read_bytes(), password, path) == b"the archive of " + name.removesuffix(".sealed").encode()
        assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert found["a.tar.gz.sealed"] != found["b.tar.gz.sealed"]


MISTAKES = {
    "sealed before": ("a", OutputExists, "already there"),
    "sealed itself": ("a.sealed", ConfigError, "is sealed already"),
    "not there": ("absent", PathError, "absent"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_changes_nothing(tmp_path: Path, case: str) -> None:
    name, kind, said = MISTAKES[case]
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "b").write_bytes(b"y")
    kept = tmp_path / "passwords.txt"
    seal_all([tmp_path / "a"], kept)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(kind, match=said):
        seal_all([tmp_path / "b", tmp_path / name], kept)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_password_that_is_not_needed_is_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"no archive")
    with pytest.raises(ConfigError, match=r"no whole \.tar\.gz"):
        open_file(tmp_path / "plain", tmp_path / "new", lambda: pytest.fail("asked"))
    (tmp_path / "bad").write_bytes(b"\xff")
    (tmp_path / "sealed").write_bytes(seal(b"x", PASSWORD))
    with pytest.raises(ConfigError, match="UTF-8"):
        open_file(tmp_path / "sealed", tmp_path / "new", tmp_path / "bad")
