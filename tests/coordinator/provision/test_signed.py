"""Signed kits: a changed file is named, and what is not the operator's, or not this node's, is never in place."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from consilium.coordinator.provision import kits
from consilium.coordinator.provision.authority import Authority
from consilium.node.kit import KIT_FILE, open_kit
from consilium.node.manifest import ALGORITHM, MANIFEST, SignedManifest, authority_fingerprint, check_signed
from consilium.node.sending import open_archive
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import private_folder
from consilium.protocol.tls import load_certificate
from tests.command_line import consilium
from tests.deploy.kits import NOISY, STUDENT, edit, make_kits

NODES = ("coordinator", "party-ward-a", f"student-{STUDENT}")


@pytest.fixture(scope="module")
def federation(tmp_path_factory) -> Path:
    """Kits, and three changes after them; not to be altered. The updates: a party, the same revoked, a student."""
    out = make_kits(tmp_path_factory.mktemp("signed"), own=["ward-b"], accepted=False, **NOISY)
    kits.add_party(out, "ward-d")
    kits.revoke(out, "ward-d")
    kits.add_student(out, "institute")
    return out


@pytest.fixture
def out(federation: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(federation, tmp_path / "kits"))


def update(out: Path, version: int, node: str) -> bytes:
    return (out / "updates" / f"{version:04d}" / f"{node}.tar.gz").read_bytes()


@pytest.mark.parametrize("node", [*NODES, "party-ward-b"])
def test_a_kit_is_as_it_was_signed(federation: Path, node: str) -> None:
    found = check_signed(open_kit(federation / node))
    assert found is not None
    assert (found.node, found.version) == (node, 1)
    own = {path.name for path in (federation / node).iterdir() if path.is_file()} - {MANIFEST, "data.npz"}
    if node == "party-ward-b":
        own -= {"identity.pem", "node.key", "node.pub"}  # it put them in itself
    assert {*found.files, *found.settings} == own
    assert "kit.json" in found.settings and "ca.crt" in found.files


def sign_anew(kit: Path) -> None:
    """By another authority, over the changed file."""
    path, other = kit / MANIFEST, Authority.create("other")
    table = json.loads(path.read_text())
    table["signature"] = other.key.sign(SignedManifest(**table).content.signed, ALGORITHM).hex()
    path.write_text(json.dumps(table))


CHANGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file changed": (lambda kit: edit(kit / "roster.json", "0", "1"), r"roster\.json is not as"),
    "a file lost": (lambda kit: (kit / "terms.json").unlink(), r"terms\.json is not there"),
    "another authority": (
        lambda kit: Authority.create("x").save(private_folder(kit / "x")) or shutil.copy(kit / "x" / "ca.crt", kit),
        "is not signed by the authority",
    ),
    "a later version": (lambda kit: edit(kit / MANIFEST, '"version": 1', '"version": 2'), "not signed by"),
    "signed by another": (sign_anew, "is not signed by the authority"),
    "no manifest": (lambda kit: (kit / MANIFEST).unlink(), "the kit is not signed"),
    "of another node": (lambda kit: shutil.copy(kit.parent / "party-ward-c" / MANIFEST, kit), "is of party-ward-c"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGED)
def test_what_was_changed_is_named(out: Path, case: str) -> None:
    spoil, said = CHANGED[case]
    kit = out / "party-ward-a"
    spoil(kit)
    with pytest.raises(ConfigError, match=said):
        check_signed(open_kit(kit))
    started = consilium("node", "start", kit)
    assert started.exit_code == 2


def test_what_belongs_to_its_people_may_change(out: Path) -> None:
    kit = out / "party-ward-a"
    edit(kit / "party.toml", "data.npz", "data.csv")
    (kit / KIT_FILE).write_text(json.dumps({**json.loads((kit / KIT_FILE).read_text()), "node_port": 9999}))
    (kit / "notes.txt").write_text("ours")
    assert check_signed(open_kit(kit)) is not None


@pytest.mark.parametrize("node", NODES)
def test_a_new_kit_is_unpacked_whole(federation: Path, tmp_path: Path, node: str) -> None:
    opened = open_archive((federation / f"{node}.tar.gz").read_bytes(), "x", tmp_path / "new")
    assert (opened.folder, opened.node, opened.update) == (tmp_path / "new" / node, node, False)
    assert opened.authority == authority_fingerprint(load_certificate(federation / "operator" / "ca.crt"))
    for path in opened.folder.iterdir():
        if path.name == "state":  # there from the start: a service may write nowhere else
            assert (list(path.iterdir()), path.stat().st_mode & 0o777) == ([], 0o700)
            continue
        assert path.read_bytes() == (federation / node / path.name).read_bytes()
        wanted = 0o600 if path.suffix in (".key", ".pem") else (federation / node / path.name).stat().st_mode & 0o755
        assert path.stat().st_mode & 0o777 == wanted, path.name
    assert opened.folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (tmp_path / "new").iterdir()] == [node]
    with pytest.raises(OutputExists):
        open_archive((federation / f"{node}.tar.gz").read_bytes(), "x", tmp_path / "new")


def test_updates_are_unpacked_in_order_and_again(out: Path) -> None:
    kit = out / "coordinator"
    assert open_archive(update(out, 2, "coordinator"), "x", kit).files == (
        "federation.json",
        "nodes.json",
        "roster.json",
    )
    open_archive(update(out, 3, "coordinator"), "x", kit)
    for _ in range(2):
        opened = open_archive(update(out, 4, "coordinator"), "x", kit)
        assert (opened.update, opened.version, opened.files) == (True, 4, ("students.json",))
        assert check_signed(open_kit(kit)) is not None
    with pytest.raises(ConfigError, match="is update 0003, the kit has 0004"):
        open_archive(update(out, 3, "coordinator"), "x", kit)


def packed(members: dict[str, bytes], *special: tarfile.TarInfo) -> bytes:
    """An archive."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in special:
            archive.addfile(info)
    return target.getvalue()


def unpacked(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {item.name: file.read() for item in archive if (file := archive.extractfile(item))}


def link(name: str, to: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, to
    return info


def without(content: bytes, name: str) -> bytes:
    return packed({path: text for path, text in unpacked(content).items() if Path(path).name != name})


def beside(content: bytes, name: str, text: bytes) -> bytes:
    return packed({**unpacked(content), name: text})


REFUSED: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "another node's": (lambda out: update(out, 2, "party-ward-c"), "is an update of party-ward-c"),
    "not signed": (lambda out: without(update(out, 2, "party-ward-a"), MANIFEST), "no signed update"),
    "altered": (lambda out: beside(update(out, 2, "party-ward-a"), "./roster.json", b"{}"), "roster.json is not as"),
    "a key added": (lambda out: beside(update(out, 2, "party-ward-a"), "identity.pem", b"x"), "an update has no keys"),
    "an enrolment added": (lambda out: beside(update(out, 2, "party-ward-a"), "enrolment.json", b"x"), "is not as the"),
    "a policy added": (lambda out: beside(update(out, 2, "party-ward-a"), "party.toml", b"x"), "party.toml is not as"),
    "another authority's": (
        lambda out: update(make_other(out), 2, "party-ward-a"), "is not signed by the authority",
    ),
    "a link": (lambda out: packed({}, link("roster.json", "/etc/passwd")), "what no kit has: 'roster.json'"),
    "out of the folder": (lambda out: packed({"../x": b"x"}), "what no kit has"),
    "twice": (lambda out: packed({"x": b"1", "./x": b"2"}), "what no kit has: 'x'"),
    "too many": (lambda out: packed({f"{number}": b"" for number in range(101)}), "what no kit has"),
    "no archive": (lambda out: b"hello", "no whole .tar.gz"),
}  # fmt: skip


def make_other(out: Path) -> Path:
    """The same federation, of another operator."""
    other = make_kits(out.parent / "other", collection="secure")
    kits.add_party(other, "ward-d")
    return other


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_this_nodes_update_changes_nothing(out: Path, case: str) -> None:
    make, said = REFUSED[case]
    content, kit = make(out), out / "party-ward-a"
    before = {path.name: path.read_bytes() for path in kit.iterdir()}
    with pytest.raises(ConfigError) as caught:
        open_archive(content, "sent.tar.gz", kit)
    assert said in caught.value.what
    assert caught.value.action
    assert {path.name: path.read_bytes() for path in kit.iterdir()} == before
    assert not list(out.glob(".unpacking-*"))


NO_KIT: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "an update": (lambda out: update(out, 2, "party-ward-a"), "holds no kit"),
    "not signed": (lambda out: without(kit_of(out), MANIFEST), "is not signed"),
    "a policy altered": (lambda out: beside(kit_of(out), "party-ward-a/party.toml", b"x"), "party.toml is not as"),
    "a key altered": (lambda out: beside(kit_of(out), "party-ward-a/identity.pem", b"x"), "identity.pem is not as"),
}  # fmt: skip


def kit_of(out: Path) -> bytes:
    return (out / "party-ward-a.tar.gz").read_bytes()


@pytest.mark.parametrize("case", NO_KIT)
def test_what_is_no_whole_kit_is_not_unpacked(out: Path, case: str) -> None:
    make, said = NO_KIT[case]
    with pytest.raises(ConfigError) as caught:
        open_archive(make(out), "sent.tar.gz", out / "new")
    assert said in caught.value.what
    assert not (out / "new").exists()


def test_a_kit_and_its_update_by_the_command_line(out: Path, tmp_path: Path) -> None:
    opened = consilium("node", "join", out / "party-ward-a.tar.gz", "--into", tmp_path / "srv")
    assert opened.exit_code == 0, opened.stderr
    assert "read the authority's fingerprint" in opened.stdout
    newer = out / "updates" / "0002" / "party-ward-a.tar.gz"
    again = consilium("node", "join", newer, "--into", tmp_path / "srv" / "party-ward-a")
    assert again.exit_code == 0 and again.stdout.startswith("updated"), again.stderr
