"""`consilium node join`: a folder that is not wholly the federation's is refused by name, and changes nothing.
Keys that a node makes itself, and its enrolment: whatever is not exactly that is refused, and quotes no secret."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import stat
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from consilium.node.folder import NodeFolder
from consilium.node.keys import KEYS, NodeKey, OwnKeys, enrolment_file, make, node_verify, public_key, read_enrolment
from consilium.node.signed import FederationFile, check_listed, find_folder, join, joined
from consilium.party.home import open_home
from consilium.protocol.errors import ConfigError, ConsiliumError, OutputExists, PathError
from consilium.protocol.tls import load_certificate
from tests.command_line import consilium
from tests.node.folders import Made, make_authority, make_small, sign, sign_files


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Masked votes. Not to be changed."""
    return make_small(tmp_path_factory.mktemp("once"), "secure")


def content(folder: NodeFolder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.path.rglob("*")) if path.is_file()}


def test_every_node_takes_the_same_folder_as_often_as_it_likes(made: Made) -> None:
    for folder in made.nodes.values():
        before = content(folder)
        assert join(made.out, folder).file == joined(folder)
        assert content(folder) == before
        assert joined(folder).terms == made.file.terms
        assert folder.policy_file.exists() == (folder.kind == "party")
        if folder.kind in ("coordinator", "student"):
            key = next(iter(OwnKeys.load(folder).keys.values())).private.public_key()
            assert load_certificate(folder.tls.certificate).public_key() == key


def test_a_newer_one_is_taken_and_an_older_one_refused(made: Made, tmp_path: Path) -> None:
    older = shutil.copytree(made.out, tmp_path / "older")
    folder = made.nodes["p00"]
    made.again(made="2026-12-24")
    assert join(made.out, folder).file.made == joined(folder).made == "2026-12-24"
    before = content(folder)
    with pytest.raises(ConfigError, match="version 1, version 2 was joined"):
        join(older, folder)
    assert content(folder) == before


def test_two_of_one_version_are_not_both_taken(made: Made) -> None:
    """As an operator makes them who restored a backup: a revocation in the first is none in the second."""
    folder = made.nodes["p00"]
    before = content(folder)
    made.again(version=made.file.version, ends="2027-11-30")
    with pytest.raises(ConfigError, match="another version 1 than the one that was joined here"):
        join(made.out, folder)
    assert content(folder) == before


def other_key(made: Made) -> None:
    keys = make("party", "p00", made.out.parent / "again")[1].keys
    terms = made.file.terms.model_copy(update={"collection": "plaintext", "roster": ""})
    made.again(nodes={**made.file.nodes, "p00": keys}, roster=None, terms=terms)


def text_of(name: str, change: Callable[[str], str], *, signed: bool = False) -> Callable[[Made], None]:
    def write(made: Made) -> None:
        (made.out / name).write_text(change((made.out / name).read_text()))
        if signed:
            sign_files(made.authority, made.out)

    return write


def linked(name: str) -> Callable[[Made], None]:
    return lambda made: (made.out / name).symlink_to((made.out / name).rename(made.out.parent / name))


def pipe(name: str) -> Callable[[Made], None]:
    def put(made: Made) -> None:
        (made.out / name).unlink()
        os.mkfifo(made.out / name)

    return put


def huge(name: str) -> Callable[[Made], None]:
    return lambda made: os.truncate(made.out / name, 300_000_000)


HOSTILE: dict[str, tuple[Callable[[Made], Any], str]] = {
    "of another authority": (
        lambda made: sign(made.file, make_authority(), made.out),
        "of another authority than the federation that was joined here",
    ),
    "a foreign key in this node's name": (other_key, "is listed with keys .*, this node's are"),
    "this node was revoked": (lambda made: made.again(revoked={"p00": made.file.nodes["p00"]}), "p00 was revoked"),
    "an edited file": (
        text_of("federation.json", lambda text: text.replace("127.0.0.1", "127.0.0.2")),
        "not as the federation's authority signed it",
    ),
    "another list of files": (
        text_of("signed.json", lambda text: text.replace('"ca.crt"', '"public.npz"', 1)),
        "not signed by the authority",
    ),
    "a linked file": (linked("federation.json"), "cannot read"),
    "a linked authority": (linked("ca.crt"), "ca.crt"),
    "a pipe": (pipe("federation.json"), "no plain file"),
    "a pipe in place of the authority": (pipe("ca.crt"), "ca.crt"),
    "a pipe in place of the signature": (pipe("signed.json"), "signed.json"),
    "a huge file": (huge("federation.json"), "no plain file of at most"),
    "a huge signature": (huge("signed.json"), "signed.json"),
    "a roster with other keys": (
        lambda made: made.again(nodes={**made.file.nodes, "p01": made.file.nodes["p02"]}),
        "its roster has other keys for p01",
    ),
    "limits": (text_of("policy.toml", lambda _: "most_epsilon = 99.0\n"), "holds limits"),
    "a policy that is a pipe": (pipe("policy.toml"), "no plain file"),
    "a folder": (lambda made: shutil.rmtree(made.out), "no signed folder"),
    "nonsense that is signed": (
        text_of("federation.json", lambda _: '{"format": 1, "key": "4711"}', signed=True),
        "federation.json",
    ),
    "nested nonsense that is signed": (
        text_of("federation.json", lambda _: "[" * 200_000, signed=True),
        "federation.json is no table in JSON",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_folder_is_refused_by_name_and_changes_nothing(made: Made, what: str) -> None:
    harm, told = HOSTILE[what]
    folder = made.nodes["p00"]
    before = content(folder)
    harm(made)
    with pytest.raises(ConfigError, match=told) as caught:
        join(made.out, folder)
    assert content(folder) == before
    assert "4711" not in str(caught.value)


def test_a_folder_that_is_exchanged_after_it_was_checked_is_refused(made: Made, monkeypatch, tmp_path: Path) -> None:
    """By one of another authority, which is as sound in itself. On a share others may write to it meanwhile."""
    folder = made.nodes["p00"]
    before = content(folder)

    def exchanged(file: FederationFile, node: NodeFolder) -> None:
        check_listed(file, node)
        sign(made.file, make_authority(), made.out)

    monkeypatch.setattr("consilium.node.signed.check_listed", exchanged)
    with pytest.raises(ConfigError, match="was changed while it was read"):
        join(made.out, folder)
    assert content(folder) == before


def test_a_copy_that_broke_off_is_said_and_mended_by_the_same_folder(made: Made) -> None:
    folder = made.nodes["p00"]
    (folder.federation / "federation.json").write_bytes(b"{")
    with pytest.raises(ConfigError, match="not as the federation's authority signed it"):
        joined(folder)
    join(made.out, folder)
    assert joined(folder).terms == made.file.terms


def test_the_folder_of_the_one_node_here_is_found(made: Made, tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    for name, told in (("p01", "not the folder of one node: none"), ("p02", "")):
        with pytest.raises(ConfigError, match=told) if told else nullcontext():
            assert find_folder(tmp_path / "place").name == find_folder(tmp_path / "place/p01").name == "p01"
        shutil.copytree(made.nodes[name].path, tmp_path / "place" / name)
    with pytest.raises(ConfigError, match="not the folder of one node: p01, p02"):
        find_folder(tmp_path / "place")


# The command.


def test_what_is_compared_over_the_telephone_is_printed(made: Made) -> None:
    shown = [consilium("node", "join", made.out, "--node", made.nodes[name].path) for name in ("p00", "p01", "anna")]
    tables = [consilium("node", "join", made.out, "--node", made.nodes["p00"].path, "--format", "json").json()]
    assert [done.exit_code for done in shown] == [0, 0, 0]
    assert len(tables[0]["roster"].split()) == 16
    for line in ("authority", "roster", "parties"):
        assert all(f"{line:11} {tables[0][line]}" in done.stdout for done in shown)
    own = [OwnKeys.load(made.nodes[name]).public.fingerprint(name) for name in ("p00", "p01", "anna")]
    assert all(f"own keys    {key}" in done.stdout for key, done in zip(own, shown, strict=True))
    assert "parties     3: p00, p01, p02" in shown[0].stdout


def test_a_party_names_its_file_and_all_faults_come_at_once(made: Made, tmp_path: Path) -> None:
    folder, data = made.nodes["p00"], tmp_path / "rows.csv"
    (folder / "party.toml").unlink()
    done = consilium("node", "join", made.out, "--node", folder.path)
    assert done.exit_code == 3 and "--data FILE" in done.output
    data.write_text("age,Druck,drowsy,label\nold,120,1,well\n")
    done = consilium("node", "join", made.out, "--node", folder.path, "--data", data)
    assert done.exit_code == 3
    assert done.stdout.count("PROBLEM") == 2 and "age" in done.stdout and "pressure" in done.stdout
    assert joined(folder).version == 1  # the join itself stands
    table = consilium("node", "join", made.out, "--node", folder.path, "--format", "json").json()
    assert table["error"]["exit_code"] == 3 and len(table["problems"]) == 2 and table["version"] == 1
    settings = (folder / "party.toml").read_text()
    (folder / "party.toml").write_text(f'{settings}[columns]\npressure = "Druck"\nage = "age"\ndrowsy = "drowsy"\n')
    lines = "".join(f"{40 + index},{100 + index},{index % 3},{('well', 'ill')[index % 2]}\n" for index in range(40))
    data.write_text(f"age,Druck,drowsy,label\n{lines}")
    done = consilium("node", "join", made.out, "--node", folder.path)
    assert done.exit_code == 0, done.output
    assert "The data fit federation 'small'" in done.stdout
    again = shutil.copy(data, tmp_path / "again.csv")
    assert consilium("node", "join", made.out, "--node", folder.path, "--data", again).exit_code == 0
    assert open_home(folder).file.columns["pressure"].column == "Druck"
    assert open_home(folder).data_file == again


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
