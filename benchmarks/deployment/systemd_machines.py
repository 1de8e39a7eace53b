"""Machines with systemd as their first process: containers of systemd-nspawn over this machine's own system.

Each has an overlay over `/`, so that what is installed or written in one is seen in no other and goes with it; the
network namespace of a `tests.deploy.netns.Host`; and systemd, started from /usr/lib/systemd/systemd. A first layer that
all share holds Consilium in /opt/consilium, installed from a wheelhouse without any network.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.deploy import netns

BOOT_SECONDS = 120
PYTHON = "/usr/bin/python3"
"""The distribution's: services with ProtectHome see none that lies in somebody's home."""
STANDING = "/etc/systemd/system/multi-user.target.wants"
"""Services of this machine that its copies need not start."""


def why_not() -> str:
    """Why this machine can start none, or nothing."""
    for tool in ("systemd-nspawn", "nsenter", "pgrep"):
        if shutil.which(tool) is None:
            return f"needs {tool} (Debian: systemd-container, util-linux, procps)"
    if not Path("/usr/lib/systemd/systemd").exists() or not Path(PYTHON).exists():
        return f"needs systemd and {PYTHON} with venv"
    return netns.why_not()


class Layers:
    """A tmpfs for what is written, and a first layer over `/` with Consilium in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mounts: list[Path] = []

    def __enter__(self) -> Layers:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(self.folder)], check=True)
        self._mounts.append(self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        for path in reversed(self._mounts):
            subprocess.run(["umount", "-l", str(path)], check=False)

    def root(self, name: str, *lower: str) -> Path:
        """A mounted tree of its own: over the layers `lower`, the upper one first, and over `/`."""
        for part in ("upper", "work", "root"):
            (self.folder / name / part).mkdir(parents=True)
        below = ":".join([*(str(self.folder / each / "upper") for each in lower), "/"])
        upper, work, root = (self.folder / name / part for part in ("upper", "work", "root"))
        options = f"lowerdir={below},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(root)], check=True)
        self._mounts.append(root)
        return root

    def install(self, wheelhouse: Path, wheels: Path) -> dict[str, float]:
        """The first layer, "base": a user, Consilium from the wheelhouse, and `wheels` for upgrades in /opt/wheels.

        Returns seconds of each command. Nothing of it can reach a network: the namespace has only its loopback.
        """
        root = self.root("base")
        for path in (root / STANDING.lstrip("/")).iterdir():
            path.unlink()
        shutil.copytree(wheelhouse, root / "srv" / "wheelhouse")
        shutil.copytree(wheels, root / "srv" / "wheels")
        commands = {
            "user": "useradd --system --create-home --home-dir /srv/consilium consilium",
            "venv": f"{PYTHON} -m venv /opt/consilium",
            "install": "/opt/consilium/bin/pip install --quiet --no-index --find-links /srv/wheelhouse --require-hashes"
            " -r /srv/wheelhouse/requirements.txt",
            "version": "/opt/consilium/bin/consilium --version",
        }
        spent = {}
        for name, command in commands.items():
            begun = time.monotonic()
            done = subprocess.run(
                [
                    "systemd-nspawn", "--quiet", f"--directory={root}", "--private-network", "--register=no",
                    "--keep-unit", "--link-journal=no", "--pipe", "--setenv=PIP_CONFIG_FILE=/dev/null",
                    "/bin/sh", "-c", f"env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root {command}",
                ],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise OSError(f"{command}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
            spent[name] = time.monotonic() - begun
        shutil.rmtree(root / "srv" / "wheelhouse")
        return spent


class Machine:
    """One that runs systemd. root: its files, as this machine sees them."""

    def __init__(self, host: netns.Host, root: Path) -> None:
        self.host, self.root = host, root
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the machine
        self._nspawn = subprocess.Popen(
            [
                "systemd-nspawn", "--quiet", f"--directory={root}", "--boot", "--register=no", "--keep-unit",
                "--link-journal=no", "--console=pipe", f"--machine={host.name}",
                f"--network-namespace-path=/run/netns/{host.namespace}",
            ],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True,
        )  # fmt: skip
        self._leader = ""

    def booted(self) -> None:
        """Wait until systemd has started what it starts."""
        deadline = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < deadline and self._nspawn.poll() is None:
            found = subprocess.run(["pgrep", "-P", str(self._nspawn.pid)], capture_output=True, text=True, check=False)
            self._leader = found.stdout.split()[0] if found.stdout else ""
            if self._leader and self.run("systemctl is-system-running", check=False) in ("running", "degraded"):
                return
            time.sleep(0.5)
        self._log.seek(0)
        raise OSError(f"{self.host.name} did not boot: {self._log.read()[-1500:].decode()}")

    def run(self, command: str, check: bool = True, seconds: float = 300) -> str:
        """What a shell command says there, run by root. Raises OSError where it fails and `check` is set."""
        done = subprocess.run(
            ["nsenter", "-t", self._leader, "-a", "env", "-i", "PATH=/opt/consilium/bin:/usr/sbin:/usr/bin:/sbin:/bin",
             "PIP_CONFIG_FILE=/dev/null", "HOME=/root", "/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise OSError(f"{self.host.name}: {command}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
        return (done.stdout + done.stderr).strip()

    def as_node(self, command: str, check: bool = True) -> str:
        """The same, run by the user of the service."""
        return self.run(
            f"runuser -u consilium -- /bin/sh -c {shlex.quote(f'umask 077; cd /srv/consilium; {command}')}", check
        )

    def off(self) -> None:
        """Pull the plug: every process of it is killed."""
        if self._nspawn.poll() is None:
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(self._leader), 9)
            try:
                self._nspawn.wait(20)
            except subprocess.TimeoutExpired:
                self._nspawn.kill()
                self._nspawn.wait()
        self._log.close()


@contextlib.contextmanager
def machines(layers: Layers, network: netns.Network, names: list[str]) -> Iterator[dict[str, Machine]]:
    """Booted machines, by name; all go off with the context."""
    made: dict[str, Machine] = {}
    try:
        for name in names:
            made[name] = Machine(network.add(name), layers.root(name, "base"))
        for machine in made.values():
            machine.booted()
        yield made
    finally:
        for machine in made.values():
            machine.off()
