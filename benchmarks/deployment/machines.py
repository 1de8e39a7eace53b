"""The machines of a drill: network namespaces with an address each, or folders of this machine on loopback.

What runs on one is known by a mark in its environment, which its children inherit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from consilium.models.devices import ONE_THREAD
from tests.deploy import netns

MARK = "CONSILIUM_DRILL_MACHINE"
LOOPBACK = "127.0.0.1"
SMALL_DISK = 64_000_000


@dataclass
class Machine:
    """One computer: a folder for its kits, an address, and the node that was started there last.

    prefix: what stands before a command that is to run there. source: the checkout of Consilium that is installed.
    """

    name: str
    folder: Path
    address: str
    prefix: tuple[str, ...] = ()
    source: Path = netns.ROOT
    node: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _mounted: list[Path] = field(default_factory=list, repr=False)

    @property
    def mark(self) -> str:
        """What is in the environment of all that runs there."""
        return f"{self.folder}"

    @property
    def log(self) -> Path:
        """What its node says, added to what it said before."""
        return self.folder / "node.log"

    def said(self, after: int = 0) -> str:
        """What the node said, after a position in bytes."""
        return self.log.read_bytes()[after:].decode(errors="replace") if self.log.exists() else ""

    def position(self) -> int:
        """Where what the node says from now on begins."""
        return self.log.stat().st_size if self.log.exists() else 0

    def consilium(self, *words: str, cwd: Path | None = None, seconds: float = 900) -> subprocess.CompletedProcess[str]:
        """A `consilium` command that ends; both streams are in `stdout`."""
        return subprocess.run(
            [*self.prefix, sys.executable, "-m", "consilium", *words], cwd=cwd or self.folder, env=self._environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds,
            check=False,
        )  # fmt: skip

    def start(self, *words: str, cwd: Path) -> None:
        """A node: a `consilium` command that stays."""
        with open(self.log, "ab") as log:
            self.node = subprocess.Popen(
                [*self.prefix, sys.executable, "-m", "consilium", *words], cwd=cwd, env=self._environment(),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def stop(self, seconds: float = 120) -> int:
        """SIGTERM to the node's command, as a supervisor does; its exit status. Raises subprocess.TimeoutExpired."""
        assert self.node is not None
        if self.node.poll() is None:
            self.node.send_signal(signal.SIGTERM)
        return self.node.wait(seconds)

    def processes(self) -> list[int]:
        """Ids of all processes that run there, whoever started them."""
        wanted, found = f"{MARK}={self.mark}".encode(), []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if wanted in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def kill(self) -> None:
        """SIGKILL to all that runs there, as when the machine loses power."""
        while running := self.processes():
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self.node is not None:
                self.node.poll()
            time.sleep(0.05)

    def small_disk(self, folder: Path) -> None:
        """A file system of `SMALL_DISK` bytes in the place of a folder, with what is in it. Needs root."""
        kept = folder.with_name(folder.name + ".kept")
        folder.rename(kept)
        folder.mkdir(mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK},mode=700", "tmpfs", folder], check=True)
        self._mounted.append(folder)
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        shutil.rmtree(kept)

    def close(self) -> None:
        """End all that runs there, and take its disks away."""
        self.kill()
        for folder in self._mounted:
            subprocess.run(["umount", folder], check=False)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **ONE_THREAD, "PYTHONPATH": str(self.source), "COLUMNS": "200", MARK: self.mark}


class Machines:
    """All machines of a drill, which are gone with their processes when the context is left."""

    def __init__(self, folder: Path, network: netns.Network | None) -> None:
        """network: None for folders on loopback."""
        self.folder, self.network = folder, network
        self.all: dict[str, Machine] = {}

    def add(self, name: str) -> Machine:
        """A new one."""
        folder = self.folder / name
        folder.mkdir()
        if self.network is None:
            made = Machine(name, folder, LOOPBACK)
        else:
            host = self.network.add(name)
            made = Machine(name, folder, host.address, tuple(host.prefix()))
        self.all[name] = made
        return made

    def __getitem__(self, name: str) -> Machine:
        return self.all[name]


@contextlib.contextmanager
def machines(folder: Path, loopback: bool) -> Iterator[Machines]:
    """Nothing of it is left running afterwards, also where SIGTERM ends the script.

    Raises
    ------
    OSError : a namespace cannot be made.
    """
    with contextlib.ExitStack() as stack:
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        stack.callback(signal.signal, signal.SIGTERM, before)
        network = None if loopback else stack.enter_context(netns.Network())
        made = Machines(folder, network)
        try:
            yield made
        finally:
            for machine in made.all.values():
                machine.close()
