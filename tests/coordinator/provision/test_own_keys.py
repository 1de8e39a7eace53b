"""Keys that a party makes itself: from the folder to the kit, and every way in which a file or a key can be wrong."""

from __future__ import annotations

import json
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from typer.testing import CliRunner

from consilium import cli
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.registry import load_registry
from consilium.node import keys as own_keys
from consilium.node.checks import examine
from consilium.node.keys import Enrolment, NodeKey, read_enrolment
from consilium.node.kit import open_kit
from consilium.party.deployed import PARTY
from consilium.protocol.errors import ConfigError, ConsiliumError, OutputExists
from consilium.protocol.identity import Identity, verify
from tests.deploy.kits import edit, make_kits, write_plan
from tests.sums.test_roster import SMALL

NAME = "ward-a"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Kits in which ward-a joined with its own keys, and the folder of these; not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    make_kits(folder, own=[NAME], collection="secure")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of them, in which the keys are not in the kit."""
    copy = Path(shutil.copytree(made, tmp_path / "copy"))
    for name in ("identity.pem", "node.key", "node.pub"):
        (copy / "kits" / f"party-{NAME}" / name).unlink()
    return copy


def run(*arguments: object) -> str:
    done = CliRunner().invoke(cli.app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_from_the_party_to_the_operator_and_back(tmp_path: Path) -> None:
    keys, out = tmp_path / "keys", tmp_path / "kits"
    said = run("node", "keys", NAME, "--out", keys)
    fingerprint = next(line for line in said.splitlines() if line.startswith("fingerprint")).split(maxsplit=1)[1]
    assert [len(group) for group in fingerprint.split()] == [4] * 16
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    assert {path.name for path in keys.iterdir()} == {"identity.pem", "node.key", "node.pub", "ward-a.enrol.json"}
    assert all(stat.S_IMODE((keys / name).stat().st_mode) == 0o600 for name in ("identity.pem", "node.key"))

    plan = write_plan(tmp_path, collection="secure")
    edit(plan, 'name = "ward-a"', 'name = "ward-a", keys = "keys/ward-a.enrol.json"')
    assert fingerprint in run("provision", plan, "--out", out)
    registry = load_registry(out)
    assert {name: record.made_by for name, record in registry.parties.items()} == {
        "ward-a": "party", "ward-b": "operator", "ward-c": "operator",
    }  # fmt: skip
    kit = out / "party-ward-a"
    assert not {"identity.pem", "node.key"} & {path.name for path in kit.iterdir()}

    run("node", "join", kit, "--keys", keys)
    run("node", "join", kit, "--keys", keys)
    for name, kind in (("identity.pem", Identity), ("node.key", NodeKey)):
        assert kind.load(kit / name).public == kind.load(keys / name).public
        assert stat.S_IMODE((kit / name).stat().st_mode) == 0o600
    own, others = run("node", "fingerprint", kit), run("node", "fingerprint", out / "party-ward-b")
    assert fingerprint in own
    assert "made by this party" in own
    assert "made by the operator" in others
    rosters = [next(line for line in text.splitlines() if line.startswith("roster")) for text in (own, others)]
    assert rosters[0] == rosters[1]
    assert rosters[0].split(maxsplit=1)[1].replace(" ", "") == registry.federation().roster


def test_a_party_with_its_own_keys_may_come_later(tmp_path: Path) -> None:
    out = make_kits(tmp_path, collection="plaintext")
    enrolment = own_keys.make("party", "ward-d", tmp_path / "keys")
    said = run("provision", "add", "--kind", "party", out, "ward-d", "--keys", tmp_path / "keys" / "ward-d.enrol.json")
    assert enrolment.fingerprint in said
    kit = open_kit(out / "party-ward-d")
    PARTY.join(kit, tmp_path / "keys")
    assert load_registry(out).parties["ward-d"].made_by == "party"
    assert "votes are clear" in run("node", "fingerprint", kit.folder)


def test_keys_are_never_overwritten(tmp_path: Path) -> None:
    own_keys.make("party", NAME, tmp_path / "keys")
    before = (tmp_path / "keys" / "identity.pem").read_bytes()
    with pytest.raises(OutputExists):
        own_keys.make("party", NAME, tmp_path / "keys")
    assert (tmp_path / "keys" / "identity.pem").read_bytes() == before
    with pytest.raises(ConfigError, match="no name"):
        own_keys.make("party", "../ward", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_nothing_private_is_shown(tmp_path: Path) -> None:
    own_keys.make("party", NAME, tmp_path / "keys")
    node = NodeKey.load(tmp_path / "keys" / "node.key")
    assert "PRIVATE" not in repr(node)
    with pytest.raises(TypeError):
        node.__reduce__()


# enrolment files


def table(folder: Path) -> dict:
    return json.loads((folder / f"{NAME}.enrol.json").read_text())


def forged(identity: bytes, signature: bytes) -> Callable[[Path], object]:
    """An enrolment of a public key that nobody has, with a node key that somebody does have."""

    def write(folder: Path) -> dict:
        node = NodeKey.generate()
        parts = (NAME.encode(), identity, node.public.encode())
        assert verify(identity, signature, "enrolment", *parts), "the signature alone would let it in"
        return {
            **table(folder), "identity": identity.hex(), "node": node.public,
            "identity_signature": signature.hex(), "node_signature": node.sign("enrolment", *parts).hex(),
        }  # fmt: skip

    return write


def signed_by(node: NodeKey, comment: str = "") -> Callable[[Path], object]:
    """An enrolment that is well signed, of a node key that must not be."""

    def write(folder: Path) -> dict:
        node.public += comment
        return Enrolment.create(NAME, Identity.generate(), node).model_dump()

    return write


def p256() -> NodeKey:
    return NodeKey(ec.generate_private_key(ec.SECP256R1()))


def seed(folder: Path) -> str:
    """The private key of ward-a as 64 hex digits: it looks like a public one."""
    key = load_pem_private_key((folder / f"keys-{NAME}" / "identity.pem").read_bytes(), password=None)
    return key.private_bytes_raw().hex()  # type: ignore[union-attr]


def other(folder: Path, *names: str) -> dict:
    """ward-a's enrolment with some entries of another party's."""
    theirs = own_keys.make("party", "ward-b", folder / "keys-ward-b").model_dump()
    return {**table(folder), **{name: theirs[name] for name in names}}


ONE = (1).to_bytes(32, "little")
FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no file": (lambda folder: None, "No such file"),
    "nested": (lambda folder: b"[" * 4000, "no enrolment"),
    "large": (lambda folder: {**table(folder), "more": "x" * 5000}, "no enrolment: not a small table"),
    "unknown key": (lambda folder: {**table(folder), "port": 1}, "an unknown key"),
    "altered name": (lambda folder: {**table(folder), "name": "ward-x"}, "did not sign"),
    "another party's file": (lambda folder: other(folder, *table(folder)), "enrols 'ward-b', not 'ward-a'"),
    "another's identity and signature": (
        lambda folder: other(folder, "identity", "identity_signature"), "did not sign",
    ),
    "signature altered": (lambda folder: {**table(folder), "identity_signature": "00" * 64}, "did not sign"),
    "identity.pem": (lambda folder: (folder / f"keys-{NAME}" / "identity.pem").read_bytes(), "holds a private key"),
    "node.key inside": (
        lambda folder: {**table(folder), "node": (folder / f"keys-{NAME}" / "node.key").read_text()},
        "holds a private key",
    ),
    "private digits as a key": (lambda folder: {**table(folder), seed(folder): 1}, "an unknown key"),
    "small order": (forged(ONE, ONE + bytes(32)), "large order"),
    "wrong curve": (signed_by(p256()), "not the OpenSSH line of a key on P-384"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_enrolment_is_refused(folder: Path, fault: str) -> None:
    spoil, said = FAULTS[fault]
    path = folder / "wrong.json"
    content = spoil(folder)
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(ConfigError) as caught:
        read_enrolment(path, NAME)
    assert said in caught.value.what
    assert caught.value.action
    assert seed(folder) not in str(caught.value)
    assert caught.value.__cause__ is None
    plan = write_plan(folder, party=[{"name": NAME, "keys": path.name}, {"name": "ward-b"}, {"name": "ward-c"}])
    with pytest.raises(ConfigError):
        kits.make(plan, folder / "again")
    assert not (folder / "again").exists()


@pytest.mark.parametrize("y", SMALL)
@pytest.mark.parametrize("sign", [0, 1 << 255])
def test_no_point_of_small_order_is_a_key(folder: Path, y: int, sign: int) -> None:
    key = ((y | sign) % 2**256).to_bytes(32, "little").hex()
    (folder / "wrong.json").write_text(json.dumps({**table(folder), "identity": key}))
    with pytest.raises(ConfigError, match="large order"):
        read_enrolment(folder / "wrong.json", NAME)


@pytest.mark.parametrize("shared", ["identity", "node", "both"])
def test_no_two_parties_have_one_key(tmp_path: Path, shared: str) -> None:
    first, second = (Identity.generate(), NodeKey.generate()), (Identity.generate(), NodeKey.generate())
    copied = (first[0] if shared != "node" else second[0], first[1] if shared != "identity" else second[1])
    for name, keys in (("ward-a", first), ("ward-b", copied)):
        Enrolment.create(name, *keys).save(tmp_path / f"{name}.enrol.json")
    own = [{"name": name, "keys": f"{name}.enrol.json"} for name in ("ward-a", "ward-b")]
    for votes in ("plaintext", "secure"):
        plan = write_plan(tmp_path, collection=votes, party=[*own, {"name": "ward-c"}])
        with pytest.raises(ConfigError, match="ward-b has the key of party ward-a"):
            kits.make(plan, tmp_path / "kits")
    kits.make(write_plan(tmp_path, party=[own[0], {"name": "ward-c"}]), tmp_path / "kits")
    with pytest.raises(ConfigError, match="ward-b has the key of party ward-a"):
        kits.add_party(tmp_path / "kits", "ward-b", keys=tmp_path / "ward-b.enrol.json")


def test_a_key_that_was_shut_out_stays_out(tmp_path: Path) -> None:
    identity, node = Identity.generate(), NodeKey.generate()
    for name in ("ward-d", "ward-e"):
        Enrolment.create(name, identity, node).save(tmp_path / name)
    out = make_kits(tmp_path)
    kits.add_party(out, "ward-d", keys=tmp_path / "ward-d")
    kits.revoke(out, "ward-d")
    with pytest.raises(ConfigError, match="a node that was revoked"):
        kits.add_party(out, "ward-e", keys=tmp_path / "ward-e", new_patients=True)


# joining


def other_keys(folder: Path) -> None:
    shutil.rmtree(folder / f"keys-{NAME}")
    own_keys.make("party", NAME, folder / f"keys-{NAME}")


def one_other_key(name: str) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        own_keys.make("party", NAME, folder / "more")
        shutil.copy(folder / "more" / name, folder / f"keys-{NAME}" / name)

    return spoil


def other_roster(folder: Path) -> None:
    path = folder / "kits" / f"party-{NAME}" / "roster.json"
    edit(path, table(folder)["identity"], Identity.generate().public.hex())


def other_enrolment(folder: Path) -> None:
    own_keys.make("party", NAME, folder / "more").save(folder / "kits" / f"party-{NAME}" / "enrolment.json")


def wrong_curve(folder: Path) -> None:
    (folder / f"keys-{NAME}" / "node.key").unlink()
    p256().save(folder / f"keys-{NAME}" / "node.key")


def key_file(name: str) -> Callable[[Path], Path]:
    return lambda folder: folder / f"keys-{NAME}" / name


JOINS: dict[str, tuple[Callable[[Path], object], str]] = {
    "other keys": (other_keys, "the kit lists keys"),
    "another identity": (one_other_key("identity.pem"), "the kit lists keys"),
    "the operator enrolled another": (other_enrolment, "the kit lists keys"),
    "the roster has another": (other_roster, "another signing key"),
    "identity others can read": (lambda folder: key_file("identity.pem")(folder).chmod(0o644), "others than its owner"),
    "wrong curve": (wrong_curve, "not an unencrypted P-384 key"),
    "no key": (lambda folder: key_file("node.key")(folder).write_text("x"), "not an unencrypted P-384 key"),
    "made by the operator": (
        lambda folder: (folder / "kits" / f"party-{NAME}" / "enrolment.json").unlink(), "not made for keys of your own",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", JOINS)
def test_joining_with_the_wrong_keys_is_refused(folder: Path, case: str) -> None:
    spoil, said = JOINS[case]
    spoil(folder)
    kit = folder / "kits" / f"party-{NAME}"
    before = {path.name for path in kit.iterdir()}
    with pytest.raises(ConsiliumError) as caught:
        PARTY.join(open_kit(kit), folder / f"keys-{NAME}")
    assert said in caught.value.what
    assert caught.value.action
    assert {path.name for path in kit.iterdir()} == before


def test_another_key_that_is_there_already_stays(folder: Path) -> None:
    kit = folder / "kits" / f"party-{NAME}"
    Identity.generate().save(kit / "identity.pem")
    there = (kit / "identity.pem").read_bytes()
    with pytest.raises(OutputExists, match=r"identity\.pem is already there"):
        PARTY.join(open_kit(kit), folder / f"keys-{NAME}")
    assert (kit / "identity.pem").read_bytes() == there
    (kit / "identity.pem").unlink()
    PARTY.join(open_kit(kit), folder / f"keys-{NAME}")
    assert PARTY.fingerprints(open_kit(kit)).made_here


@pytest.mark.parametrize("there", [(), ("identity.pem",), ("node.key",)])
def test_a_kit_without_its_keys_says_what_to_run(folder: Path, there: tuple[str, ...]) -> None:
    kit = open_kit(folder / "kits" / f"party-{NAME}")
    for name in there:
        shutil.copy(folder / f"keys-{NAME}" / name, kit / name)
    found = [item for item in examine(PARTY.checks(kit, running=True)) if item.level == "wrong"]
    assert [item.name for item in found] == ["own keys", "coordinator"]
    assert f"consilium node join {kit.folder} --keys FOLDER" in found[0].action
    for name in ("identity.pem", "node.key"):
        assert (name in found[0].what) == (name not in there)
    with pytest.raises(ConfigError, match="node join"):
        PARTY.start(kit, lambda *_: None, threading.Event())
    with pytest.raises(ConfigError, match="node join"):
        run("node", "fingerprint", kit.folder)


def test_the_doctor_knows_whose_keys_are_in_the_kit(folder: Path) -> None:
    kit = open_kit(folder / "kits" / f"party-{NAME}")
    PARTY.join(kit, folder / f"keys-{NAME}")

    def own(name: str) -> tuple[str, str]:
        checks = PARTY.checks(open_kit(folder / "kits" / f"party-{name}"), running=True)
        return next((item.level, item.what) for item in examine(checks) if item.name == "own keys")

    fingerprint = read_enrolment(kit / "enrolment.json", NAME).fingerprint
    assert own(NAME) == ("ok", f"made by this party, fingerprint {fingerprint[:9]}...: the kit lists them")
    level, said = own("ward-b")
    assert level == "ok"
    assert "the operator made this party's keys" in said
    other_enrolment(folder)
    assert own(NAME)[0] == "wrong"


def test_a_roster_that_is_lost_is_not_taken_for_clear_votes(made: Path, tmp_path: Path) -> None:
    kit = Path(shutil.copytree(made / "kits" / f"party-{NAME}", tmp_path / "kit"))
    (kit / "roster.json").unlink()
    with pytest.raises(ConfigError, match=r"roster\.json"):
        run("node", "fingerprint", kit)
