"""Flower's SuperLink on loopback: its certificate, the nodes that may connect to it, and the run that is submitted.

Only the coordinator's own processes reach it, so that the federation's authority need not vouch for its certificate."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from consilium.coordinator.rosters import REGISTERED, NodesFile, Registered
from consilium.node import flower
from consilium.node.flower import flower_environment, program
from consilium.node.kit import Kit
from consilium.node.supervisor import Program, Tell, set_aside
from consilium.protocol.config_files import load
from consilium.protocol.errors import EngineError
from consilium.protocol.files import private_folder, replace_text, replacing
from consilium.protocol.tls import TlsFiles
from consilium.protocol.versions import DISTRIBUTION

CONNECTION = "consilium"
DATABASE, PLACE = "superlink.db", "place"
MOVED = (
    "this kit was started elsewhere before: no node is connected here until it comes by itself. Two coordinators of one"
    " kit are never to run: stop the other"
)
COMMAND_SECONDS = 180
"""A program of Flower's takes seconds to start; on a machine that is short of processors, four at once took over 60."""
AT_ONCE = 4
IN_USE = "Public key already in use"


def environment(kit: Kit) -> dict[str, str]:
    """Of all Flower programs of the coordinator."""
    return flower_environment(kit.state / "flower")


def prepare(kit: Kit, tell: Tell) -> None:
    """Make the SuperLink's certificate, tell `flwr` where it is, and forget what a SuperLink knew whose database is
    gone, or that ran elsewhere: a copy of this kit would take its connections for its own."""
    home = private_folder(kit.state / "flower")
    table = {"address": kit.coordinator.internal, "root-certificates": str(make_loopback(kit).authority)}
    replace_text(home / "config.toml", tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: table}}))
    place, here = kit.state / PLACE, _here(kit)
    if place.exists() and place.read_text(encoding="utf-8") != here:
        for part in kit.state.glob(f"{DATABASE}*"):
            part.unlink()
        tell("coordinator", MOVED)
    replace_text(place, here)
    if not (kit.state / DATABASE).exists():
        (kit.state / REGISTERED).unlink(missing_ok=True)


def _here(kit: Kit) -> str:
    """This machine and this very folder: a copy of a folder is another one."""
    found = kit.state.stat()
    machine = Path("/etc/machine-id")
    return f"{machine.read_text(encoding='utf-8').strip() if machine.exists() else ''} {found.st_dev} {found.st_ino}\n"


def super_link(kit: Kit) -> Program:
    """The SuperLink, on loopback, behind the gateway."""
    files = loopback_tls(kit)
    return Program(
        name="superlink",
        command=[
            *flower.command("flower-superlink"), "--host", "127.0.0.1", "--port", str(kit.coordinator.internal_port),
            "--ssl-ca-certfile", str(files.authority), "--ssl-certfile", str(files.certificate),
            "--ssl-keyfile", str(files.key), "--enable-supernode-auth", "--database", str(kit.state / DATABASE),
            "--disable-runtime-dependency-installation",
        ],
        folder=kit.state,
        log=kit.logs / "superlink.log",
        environment=environment(kit),
        news={"address already in use": "internal_port in kit.json is taken by another program: choose another"},
    )  # fmt: skip


def flwr(kit: Kit, *arguments: str) -> dict:
    """One `flwr` command with JSON output. It exits with 0 even where it failed: the answer says `success`.

    Raises
    ------
    EngineError : it does not answer in time, or not with JSON.
    """
    try:
        done = subprocess.run(
            [program("flwr"), *arguments, "--format", "json"], env=environment(kit), cwd=kit.state,
            capture_output=True, text=True, timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        answer = None
    if not isinstance(answer, dict):
        raise EngineError(f"flwr {' '.join(arguments[:2])} gave no answer", "See state/logs/superlink.log in the kit")
    return answer


def sync_nodes(kit: Kit, tell: Tell) -> None:
    """Let exactly the nodes of `nodes.json` connect: register the missing, unregister those that are not in it.

    Raises
    ------
    ConfigError : `nodes.json` cannot be read. EngineError : the SuperLink refuses.
    """
    wanted = {key: name for name, key in load(kit / "nodes.json", NodesFile).all.items()}
    path = kit.state / REGISTERED
    known = dict(load(path, Registered).nodes) if path.exists() else {}
    for key in [key for key in known if key not in wanted]:
        answer = flwr(kit, "supernode", "unregister", str(known[key]), CONNECTION) if known[key] else {}
        if not answer.get("success"):
            raise EngineError(
                f"node {known[key] or 'of unknown id'} could not be unregistered: {_reason(answer)}",
                "Stop the coordinator, remove state/superlink.db and state/registered.json in its kit, and start it",
            )
        del known[key]
        replace_text(path, Registered(nodes=known).model_dump_json())
        tell("nodes", "unregistered a node that is not in nodes.json any more")
    missing = {key: name for key, name in wanted.items() if key not in known}
    with ThreadPoolExecutor(AT_ONCE) as pool:  # each is a program of Flower's that takes a second or two to start
        for key, node in zip(missing, pool.map(lambda item: _register(kit, *item), missing.items()), strict=True):
            known[key] = node
            replace_text(path, Registered(nodes=known).model_dump_json())
            tell("nodes", f"{missing[key]} may connect")


def _register(kit: Kit, key: str, name: str) -> int:
    """Register one node; returns its id, 0 where it was registered before and its id was lost."""
    public = kit.state / f"{name.replace(' ', '-')}.pub"
    replace_text(public, key + "\n")
    answer = flwr(kit, "supernode", "register", str(public), CONNECTION, "--name", name)
    public.unlink()
    if not answer.get("success") and IN_USE not in _reason(answer):
        raise EngineError(f"{name}: its key could not be registered: {_reason(answer)}")
    return int(answer.get("node-id", 0))


def _reason(answer: dict) -> str:
    return str(answer.get("error-message", answer)).strip().splitlines()[-1]


def write_app(kit: Kit, run_config: dict[str, str]) -> Path:
    """The Flower app that is submitted: it imports the installed coordinator. Parties never open it."""
    folder = kit.state / "app"
    package = folder / "consilium_flower"
    package.mkdir(parents=True, exist_ok=True)
    replace_text(package / "__init__.py", '"""Imports the installed Consilium."""\n')
    replace_text(
        package / "server.py", "import consilium.coordinator.server_app\n\napp = consilium.coordinator.server_app.app\n"
    )
    replace_text(package / "client.py", "import consilium.party.client_app\n\napp = consilium.party.client_app.app\n")
    app = {
        "publisher": "consilium",
        "fab-include": ["consilium_flower/*.py"],
        "components": {"serverapp": "consilium_flower.server:app", "clientapp": "consilium_flower.client:app"},
        "config": run_config,
    }
    project = {
        "name": "consilium-flower",
        "version": version(DISTRIBUTION),
        "description": "Consilium, as it is installed",
        "license": "Apache-2.0",
        "dependencies": [f"flwr=={version('flwr')}"],
    }
    replace_text(folder / "pyproject.toml", tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}}))
    return folder


def follow_run(kit: Kit, app: Path) -> subprocess.Popen:
    """Submit the app; the process ends when the run does, or the SuperLink."""
    set_aside(kit.logs / "run.log")
    with open(kit.logs / "run.log", "ab") as output:
        (kit.logs / "run.log").chmod(0o600)
        return subprocess.Popen(
            [program("flwr"), "run", str(app), CONNECTION, "--stream"], env=environment(kit), cwd=kit.state,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip


DAYS = 3650
EARLY = timedelta(days=1)
"""It starts so much before now: a clock that is set back while the coordinator runs stops nothing."""


def loopback_tls(kit: Kit) -> TlsFiles:
    """Where it is; it is its own authority."""
    folder = kit.state / "loopback"
    return TlsFiles(folder / "superlink.crt", folder / "superlink.key", folder / "superlink.crt")


def make_loopback(kit: Kit) -> TlsFiles:
    """A new one, ECDSA on P-256, for 127.0.0.1 and localhost, in place of the one of the start before."""
    files = loopback_tls(kit)
    private_folder(files.key.parent)
    key = ec.generate_private_key(ec.SECP256R1())
    public, name = key.public_key(), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "superlink on loopback")])
    start = datetime.now(UTC) - EARLY
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
    ) | dict.fromkeys(("crl_sign", "encipher_only", "decipher_only"), False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, **usage), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for path, content in ((files.key, secret), (files.certificate, certificate.public_bytes(Encoding.PEM))):
        with replacing(path, 0o600) as file:
            file.write(content)
    return files
