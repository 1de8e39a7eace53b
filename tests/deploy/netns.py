"""Machines on one switch: network namespaces, each with an address of its own. Linux, root, iproute2."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "consilium"
SWITCH = "switch"
DEVICE = "eth0"


def why_not() -> str:
    """Why this machine can make no network namespaces, or nothing."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        return "needs Linux with iproute2"
    if os.geteuid() != 0:
        return "network namespaces need root"
    probe = f"{PREFIX}-{os.getpid()}-probe"
    if (made := subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)).returncode:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    _ip("netns", "del", probe)
    return ""


def remove_stale() -> None:
    """Remove what a process that was killed has left behind: the names say whose they were."""
    for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else []:
        owner = re.match(rf"{PREFIX}-(\d+)-", name)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            _remove(name)


@dataclass
class Host:
    """One machine: its namespace and its address."""

    name: str
    namespace: str
    address: str

    def prefix(self) -> list[str]:
        """What to write before a command that is to run there."""
        return ["ip", "netns", "exec", self.namespace]

    def start(self, output: IO[bytes], *arguments: str) -> subprocess.Popen[bytes]:
        """A `consilium` command that stays."""
        return subprocess.Popen(
            [*self.prefix(), sys.executable, "-m", "consilium", *arguments],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip

    def command(self, *arguments: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """A `consilium` command that ends."""
        return self.run(sys.executable, "-m", "consilium", *arguments, seconds=seconds)

    def run(self, *command: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
        """Any command that ends."""
        return subprocess.run(
            [*self.prefix(), *command], cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
        )

    def pids(self) -> list[int]:
        """Processes that are in the namespace."""
        return [int(pid) for pid in _ip("netns", "pids", self.namespace, check=False).split()]

    def kill(self, number: int = signal.SIGKILL) -> None:
        """A signal to all its processes; with SIGKILL, as when the machine loses power."""
        _kill(self.namespace, number)

    @property
    def inode(self) -> int:
        """What identifies the namespace: the same as that of /proc/PID/ns/net of its processes."""
        return os.stat(f"/run/netns/{self.namespace}").st_ino


class Network:
    """Hosts on a switch that is a namespace too, so that nothing of it is in the machine's own network."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self._switch = self._full(SWITCH)

    def __enter__(self) -> Self:
        remove_stale()
        _ip("netns", "add", self._switch)
        try:
            _ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
            _ip("-n", self._switch, "link", "set", "br0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for namespace in [*(host.namespace for host in self.hosts.values()), self._switch]:
            _remove(namespace)

    def add(self, name: str) -> Host:
        """A new host with a cable to the switch."""
        host = Host(name, self._full(name), f"10.77.0.{len(self.hosts) + 1}")
        _ip("netns", "add", host.namespace)
        self.hosts[name] = host
        _ip("-n", host.namespace, "link", "set", "lo", "up")
        self._plug(host)
        return host

    def cut(self, name: str) -> None:
        """Pull the host's cable: its packets are lost, and nobody is told."""
        _ip("-n", self._switch, "link", "set", self._port(name), "down")

    def mend(self, name: str) -> None:
        """Plug it in again."""
        _ip("-n", self._switch, "link", "set", self._port(name), "up")

    def slow(self, name: str, delay_ms: int, bits_per_second: int) -> None:
        """Replace the host's cable by a slow one: so much later in each direction, and so many bits a second."""
        host = self.hosts[name]
        _ip("-n", host.namespace, "link", "del", DEVICE)
        relay = subprocess.Popen(
            [
                "ip", "netns", "exec", self._switch, sys.executable, "-m", "tests.deploy.slow_link",
                self._port(name), DEVICE, host.namespace, str(delay_ms), str(bits_per_second),
            ],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert relay.stdout is not None
        assert relay.stdout.readline() == "ready\n"
        self._connect(host)

    def fast(self, name: str) -> None:
        """Give the host a normal cable again."""
        host = self.hosts[name]
        for pid in _ip("netns", "pids", host.namespace, check=False).split():
            if b"tests.deploy.slow_link" in _command(int(pid)):
                os.kill(int(pid), signal.SIGKILL)
        while DEVICE in _ip("-n", host.namespace, "-o", "link"):
            time.sleep(0.05)
        self._plug(host)

    def _plug(self, host: Host) -> None:
        _ip(
            "-n", self._switch, "link", "add", self._port(host.name), "type", "veth",
            "peer", "name", DEVICE, "netns", host.namespace,
        )  # fmt: skip
        self._connect(host)

    def _connect(self, host: Host) -> None:
        _ip("-n", self._switch, "link", "set", self._port(host.name), "master", "br0")
        _ip("-n", self._switch, "link", "set", self._port(host.name), "up")
        _ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", DEVICE)
        _ip("-n", host.namespace, "link", "set", DEVICE, "up")

    def _full(self, name: str) -> str:
        return f"{PREFIX}-{os.getpid()}-{name}"

    def _port(self, name: str) -> str:
        return f"port{list(self.hosts).index(name)}"  # names of devices have 15 letters at most


def _ip(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=30, check=False)
    if check and done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _kill(namespace: str, number: int) -> None:
    """Twice for SIGKILL: a process may just have started another."""
    for _ in range(2 if number == signal.SIGKILL else 1):
        for pid in _ip("netns", "pids", namespace, check=False).split():
            if b"tests.deploy.slow_link" in _command(int(pid)) and number != signal.SIGKILL:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), number)


def _remove(namespace: str) -> None:
    _kill(namespace, signal.SIGKILL)
    _ip("netns", "del", namespace, check=False)
