"""Runs every attack against the code of this checkout, and of a commit as the control, and prints a table."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.load.attacks import GATEWAY, HOLD_SECONDS, LABELS, Address, Attack, alive, honest_node, honest_student
from consilium.coordinator.provision.kits import add_student
from consilium.node.kit import open_kit
from consilium.protocol.messages import PROTOCOL_VERSION
from tests.deploy.kits import free_ports, make_kits

ROOT = Path(__file__).parents[2]
TARGET = Path(__file__).with_name("target.py")
HONEST_SECONDS = 5.0
CALM, MOST, PAUSE = 20, 20, 0.25


@contextlib.contextmanager
def process(code: Path, kind: str, folder: Path, address: Address) -> Iterator[subprocess.Popen]:
    """One attacked process with the code of a checkout, until the context ends."""
    environment = {**os.environ, "PYTHONPATH": str(code), "CONSILIUM_SPEAKS": str(PROTOCOL_VERSION)}
    found = subprocess.Popen(
        [sys.executable, "-P", str(TARGET), kind, str(folder), str(address[1])],
        env=environment, cwd=code, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not alive(address):
            if found.poll() is not None:
                sys.exit(f"{kind} did not start from {code}")
            time.sleep(0.1)
        yield found
    finally:
        found.terminate()
        found.wait()


def memory(pid: int, what: str) -> float:
    """MB of a process: VmRSS now, VmHWM at most since the last `forget`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1000


def forget(pid: int) -> None:
    """Begin a new maximum."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def timed(work: Callable[[], None]) -> float | None:
    """Seconds, or None where it failed."""
    start = time.perf_counter()
    try:
        work()
    except Exception:
        return None
    return time.perf_counter() - start


def attacked(pid: int, attack: Attack, honest: Callable[[], None], address: Address, kits: Path) -> dict[str, float]:
    """Figures of one attack: MB before and at most; honest requests done, failed, and their slowness against calm."""
    honest()
    calm = statistics.median(seconds for _ in range(CALM) if (seconds := timed(honest)))
    before = memory(pid, "VmRSS")
    forget(pid)
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    attacker = context.Process(target=attack, args=(address, kits, begun))
    attacker.start()
    assert begun.wait(60)
    found: list[float | None] = []
    last = time.monotonic() + HOLD_SECONDS - HONEST_SECONDS  # one that begins later could outlast the attack
    while attacker.is_alive() and len(found) < MOST and time.monotonic() < last:
        found.append(timed(honest))
        time.sleep(PAUSE)
    peak = memory(pid, "VmHWM")
    attacker.join(60)
    if attacker.is_alive():
        attacker.kill()
    peak = max(peak, memory(pid, "VmHWM"))
    done = [seconds for seconds in found if seconds is not None]
    return {
        "before": before,
        "peak": peak,
        "done": len(done),
        "failed": len(found) - len(done),
        "calm": 1000 * calm,
        "slower": statistics.median(done) / calm if done else float("inf"),
    }


def attack_all(code: Path, kits: Path) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Process, attack, figures; a fresh process for each attack."""
    kit = open_kit(kits / "coordinator")
    inner, gateway = ("127.0.0.1", kit.coordinator.internal_port), ("127.0.0.1", kit.coordinator.superlink_port)
    with process(code, "superlink", kit.folder, inner):
        for name, attack in GATEWAY.items():
            with process(code, "gateway", kit.folder, gateway) as target:
                work = lambda: honest_node(gateway, kits, HONEST_SECONDS)  # noqa: E731
                yield "gateway", name, attacked(target.pid, attack, work, gateway, kits)
    for name, attack in LABELS.items():
        labels = ("127.0.0.1", free_ports(1)[0])
        with process(code, "labels", kit.folder, labels) as target:
            work = lambda address=labels: honest_student(address, kits, HONEST_SECONDS)  # noqa: E731
            yield "labels", name, attacked(target.pid, attack, work, labels, kits)


def main(commit: str = "") -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        kits = make_kits(Path(folder), students=[{"name": "university"}])
        add_student(kits, "institute")
        subprocess.run(
            ["tar", "-xzf", *sorted((kits / "updates").rglob("coordinator.tar.gz")), "-C", kits / "coordinator"],
            check=True,
        )
        codes = {"after": ROOT}
        if commit:
            codes = {"before": Path(folder) / "before", **codes}
            codes["before"].mkdir()
            archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
            subprocess.run(["tar", "-x", "-C", codes["before"]], input=archive, check=True)
        columns = ("code", "process", "attack", "MB calm", "MB peak", "answered", "failed", "ms calm", "slower")
        print("{:7}{:8}{:46}{:>9}{:>9}{:>9}{:>8}{:>9}{:>8}".format(*columns))
        for name, code in codes.items():
            for target, attack, found in attack_all(code, kits):
                print(
                    f"{name:7}{target:8}{attack:46}{found['before']:9.0f}{found['peak']:9.0f}{found['done']:9.0f}"
                    f"{found['failed']:8.0f}{found['calm']:9.0f}{found['slower']:7.1f}x",
                    flush=True,
                )
