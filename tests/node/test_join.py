"""`consilium node join`: a folder that is not wholly the federation's is refused by name, and changes nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.node.folder import NodeFolder
from consilium.node.join import check_listed, find_folder, join, joined
from consilium.node.keys import OwnKeys, make
from consilium.node.signed import FederationFile
from consilium.party.home import open_home
from consilium.protocol.errors import ConfigError
from consilium.protocol.tls import load_certificate
from tests.command_line import consilium
from tests.federation import make_rows
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


def test_no_file_of_it_is_a_secret(made: Made) -> None:
    secret = [path.read_bytes() for folder in made.nodes.values() for path in folder.keys.iterdir()]
    sent = b"".join(path.read_bytes() for path in made.out.iterdir())
    assert b"PRIVATE" not in sent
    assert not [key for key in secret if b"PRIVATE" in key and key in sent]


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
    """The operator lists another key in this node's name."""
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

    monkeypatch.setattr("consilium.node.join.check_listed", exchanged)
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


def test_public_rows_travel_with_it(made: Made) -> None:
    rows = make_rows(10, 1)[0]
    sign(made.file.model_copy(update={"version": 2}), made.authority, made.out, public=rows)
    join(made.out, made.nodes["anna"])
    assert np.array_equal(np.load(made.nodes["anna"].federation / "public.npz")["queries"], rows)


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
