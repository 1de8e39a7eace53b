"""A new authority in place of one whose key others may have: nodes learn of it from the former one, and then trust it
alone.

The control: until the handover is ended, whoever has the former key is still the operator.
"""

from __future__ import annotations

import shutil
import ssl
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path

import grpc
import pytest

from consilium.coordinator.provision import authority, escrow, kits
from consilium.coordinator.provision.authority import Authority
from consilium.coordinator.provision.registry import load_registry
from consilium.node.checks import check_authority, check_certificate
from consilium.node.kit import open_kit
from consilium.node.manifest import check_signed
from consilium.protocol.errors import ConfigError
from consilium.protocol.tls import channel_credentials, server_credentials
from tests.command_line import consilium
from tests.deploy.kits import make_kits


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Kits of three parties, a coordinator and a student."""
    return make_kits(tmp_path)


def nodes_of(out: Path) -> list[str]:
    """Folders of all kits."""
    return sorted(path.parent.name for path in out.glob("*/kit.json"))


def handed(out: Path, *options: str) -> list[Path]:
    """The updates of one step."""
    done = consilium("provision", "handover", out, *options, "--format", "json")
    assert done.exit_code == 0, done.stderr
    return [Path(path) for path in done.json()["updates"]]


def joined(out: Path, updates: list[Path]) -> None:
    """Every node opens its own."""
    for path in updates:
        done = consilium("node", "join", path, "--into", out / path.name.removesuffix(".tar.gz"))
        assert done.exit_code == 0, done.stderr


def student(out: Path) -> str:
    """Folder of the one student's kit."""
    return next(node for node in nodes_of(out) if node.startswith("student-"))


def greets(server: Path, client: Path) -> bool:
    """Whether a student's and the coordinator's TLS accept each other, with the files of these kits as they are."""
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(server / "ca.crt"))
    server_side.load_cert_chain(server / "server.crt", server / "server.key")
    server_side.verify_mode = ssl.CERT_REQUIRED
    client_side = ssl.create_default_context(cafile=str(client / "ca.crt"))
    client_side.load_cert_chain(client / "client.crt", client / "client.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client_side.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server_side.wrap_bio(to_server, to_client, server_side=True)
    waiting = [one, other]
    for _ in range(20):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
            waiting.remove(side)
    return not waiting


def test_every_node_ends_with_the_new_authority_alone(out: Path) -> None:
    old = Authority.load(out / "operator").certificate
    copies = {0: out.parent / "stage-0"}
    shutil.copytree(out, copies[0])
    first = handed(out)
    assert sorted(path.name.removesuffix(".tar.gz") for path in first) == nodes_of(out)
    joined(out, first)
    copies[1] = out.parent / "stage-1"
    shutil.copytree(out, copies[1])
    for node in nodes_of(out):
        assert check_signed(open_kit(out / node)) is not None
        assert "former authority holds too" in check_authority(out / node / "ca.crt")
    second = handed(out, "--finish")
    joined(out, second)
    copies[2] = out
    new = Authority.load(out / "operator")
    assert new.former is None and new.certificate != old
    for node in nodes_of(out):
        kit = open_kit(out / node)
        assert check_signed(kit) is not None
        assert (kit / "ca.crt").read_text() == new.trusted and "former" not in check_authority(kit / "ca.crt")
    check_certificate(open_kit(out / "coordinator").server_tls, ["localhost"])
    check_certificate(open_kit(out / student(out)).client_tls)
    # the first step is taken in any order; at the second, students wait until both have taken it
    name = student(out)
    met = {
        (server, client): greets(copies[server] / "coordinator", copies[client] / name)
        for server, client in product(copies, copies)
    }
    assert {pair for pair, good in met.items() if good} == {(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)}


def test_grpc_takes_both_authorities_while_both_hold(out: Path) -> None:
    """What the label service and a student's channel are made of; the control: another federation's authority."""
    joined(out, handed(out))
    strange = out.parent / "strange"
    strange.mkdir()
    trusted = [open_kit(out / student(out)).authority, open_kit(make_kits(strange) / student(out)).authority]
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_secure_port("localhost:0", server_credentials(open_kit(out / "coordinator").server_tls))
    server.start()
    tls = open_kit(out / student(out)).client_tls
    for authority_file, ready in zip(trusted, (True, False), strict=True):
        with grpc.secure_channel(
            f"localhost:{port}", channel_credentials(replace(tls, authority=authority_file))
        ) as channel:
            try:
                grpc.channel_ready_future(channel).result(timeout=60 if ready else 3)
                assert ready
            except grpc.FutureTimeoutError:
                assert not ready
    server.stop(None)


def test_a_former_operator_is_nobody_once_it_is_ended(out: Path) -> None:
    former = out.parent / "former"
    shutil.copytree(out, former)
    joined(out, handed(out))
    registry = load_registry(former)
    registry.model_copy(update={"version": 10}).save(former)
    update = kits.renew(former, "coordinator").updates[0]
    deployed = out.parent / "deployed"
    shutil.copytree(out / "coordinator", deployed)
    control = consilium("node", "join", update, "--into", deployed)
    assert "not signed by the authority" not in control.stderr
    joined(out, handed(out, "--finish"))
    done = consilium("node", "join", update, "--into", out / "coordinator")
    assert done.exit_code != 0 and "is not signed by the authority" in done.stderr


def test_whoever_skipped_the_first_update_is_told(out: Path) -> None:
    handed(out)
    update = next(path for path in handed(out, "--finish") if path.name == "coordinator.tar.gz")
    done = consilium("node", "join", update, "--into", out / "coordinator")
    assert done.exit_code != 0 and "is not signed by the authority" in done.stderr


def test_who_comes_in_between_trusts_both(out: Path) -> None:
    first = handed(out)
    assert consilium("provision", "add", out, "institute", "--kind", "student").exit_code == 0
    assert (out / "student-institute" / "ca.crt").read_text() == Authority.load(out / "operator").trusted
    joined(out, first)
    assert greets(out / "coordinator", out / "student-institute")


def test_a_handover_that_was_broken_off_is_begun_again(out: Path, monkeypatch) -> None:
    """Between the two files, of which the second is the key."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(authority, "replace_private", killed)
        with pytest.raises(KeyboardInterrupt):
            kits.hand_over(out)
    updates = [*kits.hand_over(out).updates, *kits.end_handover(out).updates]
    joined(out, updates)
    assert check_signed(open_kit(out / "coordinator")) is not None


def test_the_steps_come_one_after_the_other(out: Path) -> None:
    with pytest.raises(ConfigError, match="no handover to end"):
        kits.end_handover(out)
    kits.hand_over(out)
    with pytest.raises(ConfigError, match="the last handover was not ended"):
        kits.hand_over(out)


def test_an_escrow_of_the_former_authority_is_over(out: Path, tmp_path: Path) -> None:
    escrow.put_in_escrow(out, ("basel", "board"), 2)
    assert "share the folder anew" in kits.hand_over(out).note
    assert escrow.seal_again(out) is None
    shutil.rmtree(out / "escrow")
    made = escrow.put_in_escrow(out, ("basel", "board"), 2)
    kits.end_handover(out)
    found = escrow.recover(made.sealed, made.shares, tmp_path / "back")
    assert found.version == load_registry(out).version
    assert Authority.load(tmp_path / "back" / "operator").former is None
