"""A Ray cluster of machines that share nothing but the wire: network, mount and process namespaces of their own.

The first holds the run folder, and is where commands are run. Of the others' disk, what is under /tmp, /dev/shm and the
folders that are named is their own and empty. Linux, root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.deploy import netns

PORT = 6399
MEMORY = 80_000_000
"""Bytes of each node's object store."""
START_SECONDS = 300


def why_not() -> str:
    """Why this machine can make no such cluster, or nothing."""
    if shutil.which("unshare") is None:
        return "needs unshare"
    if not (Path(sysconfig.get_path("scripts")) / "ray").is_file():
        return "Ray is not installed (extra `ray`)"
    return netns.why_not()


class TwoMachines:
    """A context in which the cluster is there. hidden: folders that the other machines have not got."""

    def __init__(self, hidden: Sequence[Path]) -> None:
        own = [Path("/tmp"), Path("/dev/shm")]
        self._hidden = [*own, *(each for each in hidden if not any(each.is_relative_to(folder) for folder in own))]
        self._network = netns.Network()
        self._folder = Path(tempfile.mkdtemp(dir="/tmp"))  # short: paths of sockets end at 107 bytes
        self._raylets: list[subprocess.Popen[bytes]] = []
        self.others: dict[str, netns.Host] = {}

    def __enter__(self) -> Self:
        self._network.__enter__()
        try:
            self.head = self._network.add("head")
            arguments = ["--head", f"--node-ip-address={self.head.address}", f"--port={PORT}"]
            arguments += [f"--temp-dir={self._folder}", "--include-dashboard=false"]
            self._start(self.head.prefix(), arguments, {})
            self._wait_for(self.head)
            self.add("other")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for raylet in reversed(self._raylets):
            raylet.kill()
        self._network.__exit__()
        for raylet in self._raylets:
            raylet.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def address(self) -> str:
        """Of the cluster."""
        return f"{self.head.address}:{PORT}"

    def environment(self) -> dict[str, str]:
        """Of commands on the first machine, and of Ray's processes everywhere."""
        return {**os.environ, "PYTHONPATH": str(netns.ROOT), "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": "/tmp"}

    def add(self, name: str, **environment: str) -> None:
        """Another machine joins. environment: of its processes, beside what all have."""
        host = self.others[name] = self._network.add(name)
        own = " && ".join(f"mount -t tmpfs tmpfs {folder}" for folder in self._hidden)
        prefix = [*host.prefix(), "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        prefix += ["--mount-proc", "sh", "-c", f'{own} && exec "$@"', "sh"]
        self._start(prefix, [f"--address={self.address}", f"--node-ip-address={host.address}"], environment)
        self._wait_for(host)

    def files(self, name: str, pattern: str) -> list[Path]:
        """What is on the disk of a machine that is there, as it sees it."""
        pid = next(pid for pid in self.others[name].pids() if b"raylet" in Path(f"/proc/{pid}/cmdline").read_bytes())
        return list(Path(f"/proc/{pid}/root").glob(pattern))

    def start(self, output: Path, *arguments: str) -> subprocess.Popen[bytes]:
        """A command on the first machine."""
        with open(output, "wb") as log:
            return subprocess.Popen(
                [*self.head.prefix(), sys.executable, "-P", "-m", "consilium", *arguments],
                env=self.environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def off(self, name: str) -> bool:
        """Whether nothing runs on it any more."""
        return not self.others[name].pids()

    def alive(self) -> list[str]:
        """Addresses of the cluster's nodes."""
        asked = subprocess.Popen(
            [
                *self.head.prefix(), sys.executable, "-c",
                "import ray,sys\nray.init(address=sys.argv[1],logging_level=50,log_to_driver=False)\n"
                "print(*(n['NodeManagerAddress'] for n in ray.nodes() if n['Alive']))",
                self.address,
            ],
            env=self.environment(), cwd="/", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            return asked.communicate(timeout=START_SECONDS)[0].split()
        except subprocess.TimeoutExpired:
            return []
        finally:
            asked.kill()

    def _wait_for(self, host: netns.Host) -> None:
        """Until it is a node of the cluster."""
        deadline = time.monotonic() + START_SECONDS
        while host.address not in self.alive():
            if time.monotonic() > deadline:
                logs = b"\n".join(path.read_bytes()[-3000:] for path in sorted(self._folder.glob("node-*.log")))
                raise RuntimeError(f"{host.name} is no node of the cluster: {logs.decode(errors='replace')}")
            time.sleep(0.5)

    def _start(self, prefix: list[str], arguments: list[str], environment: Mapping[str, str]) -> None:
        program = Path(sysconfig.get_path("scripts")) / "ray"
        command = [*prefix, sys.executable, "-P", str(program), "start", "--block", "--disable-usage-stats"]
        command += ["--num-cpus=1", f"--object-store-memory={MEMORY}", *arguments]
        with open(self._folder / f"node-{len(self._raylets)}.log", "wb") as log:
            self._raylets.append(
                subprocess.Popen(
                    command,
                    env={**self.environment(), **environment},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )
