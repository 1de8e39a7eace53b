"""Keys that a node makes itself, and its enrolment: whatever is not exactly that is refused, and quotes no secret."""

from __future__ import annotations

import json
import pickle
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consilium.node.keys import KEYS, NodeKey, OwnKeys, enrolment_file, make, node_verify, public_key, read_enrolment
from consilium.protocol.errors import ConfigError, ConsiliumError, OutputExists, PathError
from tests.command_line import consilium


@pytest.mark.parametrize("kind", KEYS)
def test_each_kind_makes_its_keys_and_an_enrolment_of_their_public_halves(tmp_path: Path, kind: Any) -> None:
    name = "coordinator" if kind == "coordinator" else "ward-a"
    folder, enrolment = make(kind, name, tmp_path / "node")
    assert {path.name for path in folder.keys.iterdir()} == set(KEYS[kind])
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.keys.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert read_enrolment(enrolment_file(folder)) == enrolment
    assert OwnKeys.load(folder).public == enrolment.keys
    sent = enrolment_file(folder).read_text()
    assert "PRIVATE" not in sent and "PRIVATE" not in repr(OwnKeys.load(folder))
    with pytest.raises(OutputExists, match="keys are never overwritten"):
        make(kind, name, tmp_path / "node")


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        ("party", "a b", "is no name"),
        ("party", "../x", "is no name"),
        ("party", "coordinator", "called 'coordinator'"),
        ("coordinator", "ward-a", "called 'ward-a'"),
    ],
)
def test_names_that_none_may_have(tmp_path: Path, kind: Any, name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_enrolment(enrolment_file(make(kind, name, tmp_path / "node")[0]))


def test_the_command_makes_them_beside_where_one_is(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = consilium("node", "keys", "ward-a", "--format", "json").json()
    assert read_enrolment(Path(made["send"])).fingerprint == made["fingerprint"]
    assert made["folder"] == "ward-a"
    assert consilium("node", "keys", "ward-a").exit_code == 6


def changed(**values: Any) -> Callable[[dict[str, Any]], Any]:
    """The enrolment with other values; of "keys" where they are keys."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        for key, value in values.items():
            (table["keys"] if key in table["keys"] else table)[key] = value
        return table

    return change


OTHER = NodeKey.generate().public
REFUSED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another name": (changed(name="ward-b"), "did not sign it"),
    "another key": (changed(key=OTHER), "did not sign it"),
    "another kind": (changed(kind="student"), "not the keys of a student"),
    "no identity": (changed(identity=""), "not the keys of a party"),
    "a sealing key": (changed(sealing="09" + "0" * 62), "not the keys of a party"),
    "an identity of low order": (changed(identity="01" + "0" * 62), "anyone could sign"),
    "a key with a comment": (changed(key=f"{OTHER} root@ward"), "not the OpenSSH line"),
    "a key of another curve": (changed(key="ssh-ed25519 AAAA"), "not the OpenSSH line"),
    "an unknown key": (lambda table: {**table, "secret": "4711"}, "an unknown key"),
    "a list": (lambda table: [table], "not a small table"),
    "much": (lambda table: {**table, "name": "x" * 5000}, "not a small table"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_enrolment_that_was_altered_is_refused(tmp_path: Path, what: str) -> None:
    change, told = REFUSED[what]
    folder, _ = make("party", "ward-a", tmp_path / "node")
    path = enrolment_file(folder)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(ConfigError, match=told) as caught:
        read_enrolment(path)
    assert "4711" not in str(caught.value)


def test_a_private_key_in_an_enrolment_is_named_and_not_quoted(tmp_path: Path) -> None:
    folder, _ = make("party", "ward-a", tmp_path / "node")
    with pytest.raises(ConfigError, match="no secret any more") as caught:
        read_enrolment(folder.keys / "node.key")
    assert (folder.keys / "node.key").read_text()[60:90] not in str(caught.value)
    with pytest.raises(PathError):
        read_enrolment(tmp_path / "absent")


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.chmod(0o640),
        lambda path: path.unlink(),
        lambda path: path.write_text("4711"),
        lambda path: path.write_bytes((path.parent / "identity.pem").read_bytes()),
    ],
    ids=["others read it", "lost", "garbage", "another kind"],
)
def test_a_key_that_cannot_be_used_is_named(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    folder, _ = make("party", "ward-a", tmp_path / "node")
    harm(folder.keys / "node.key")
    with pytest.raises(ConsiliumError, match=r"node\.key") as caught:
        OwnKeys.load(folder)
    assert "4711" not in str(caught.value)


def test_a_node_key_signs_shows_only_its_public_half_and_is_not_pickled() -> None:
    key = NodeKey.generate()
    signature = key.sign("label", b"one", b"two")
    assert node_verify(key.public, signature, "label", b"one", b"two")
    assert not node_verify(key.public, signature, "label", b"onet", b"wo")  # parts are framed
    assert not node_verify(OTHER, signature, "label", b"one", b"two")
    assert public_key(key.public) is not None and public_key(f" {key.public}") is None
    assert repr(key) == f"NodeKey(public={key.public!r})"
    with pytest.raises(TypeError):
        pickle.dumps(key)
