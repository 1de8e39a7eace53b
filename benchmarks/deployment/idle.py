"""Memory, processor time and open files of every process of a deployment in which nobody asks anything.

A coordinator and three parties from kits, on loopback, each with its own port for metrics, as docs/console.md has it.
When students may ask, each node is scraped; after some minutes again. Needs no root.

    python -m benchmarks.deployment.idle [--minutes 10] [--keep FOLDER]

FOLDER gets what was scraped at the end, and the console's page.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.kits import PARTIES, free_ports, make_kits

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 900
Scraped = dict[tuple[str, str], float]
"""Values by metric and process; "" where it has none."""


def get(port: int, path: str) -> tuple[int, bytes]:
    """Status and body; 0 where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


def scrape(port: int) -> Scraped:
    """What a node tells of its processes."""
    families = text_string_to_metric_families(get(port, "/metrics")[1].decode())
    return {(each.name, each.labels.get("process", "")): each.value for family in families for each in family.samples}


def wait(true: Callable[[], bool], what: str, nodes: list[subprocess.Popen[bytes]], logs: Path) -> None:
    """Until it is so; ends the program where a node has ended, or nothing comes."""
    deadline = time.monotonic() + START_SECONDS
    while not true():
        if time.monotonic() > deadline or any(node.poll() is not None for node in nodes):
            said = "\n".join(f"== {log.name}\n{log.read_text()[-2000:]}" for log in sorted(logs.iterdir()))
            sys.exit(f"{what} did not come\n{said}")
        time.sleep(0.5)


def measure(folder: Path, minutes: float, keep: Path | None) -> None:
    """Start, wait, scrape, wait, scrape, print."""
    kits = make_kits(folder, minimum_parties=len(PARTIES), timeouts={"student": 86_400})
    names = ("coordinator", *(f"party-{name}" for name in PARTIES))
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    logs = folder / "logs"
    logs.mkdir()
    nodes: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:
        for name, port in ports.items():
            (kits / name / "monitor.toml").write_text(f'port = {port}\n[log]\nformat = "json"\n')
            with open(logs / name, "wb") as log:
                command = [sys.executable, "-m", "consilium", name.partition("-")[0], "start", str(kits / name)]
                nodes.append(subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log))
            stack.callback(nodes[-1].wait, 120)
            stack.callback(nodes[-1].send_signal, signal.SIGTERM)
        begun = time.monotonic()
        wait(lambda: all(get(port, "/readyz")[0] == 200 for port in ports.values()), "readiness", nodes, logs)
        service = ("consilium_label_service_listens", "")
        wait(lambda: scrape(ports["coordinator"]).get(service) == 1, "the label service", nodes, logs)
        print(f"students may ask after {time.monotonic() - begun:.0f} s; idle for {minutes:g} min")
        time.sleep(5)  # what training left is over
        before, since = {name: scrape(port) for name, port in ports.items()}, time.monotonic()
        time.sleep(60 * minutes)
        after, seconds = {name: scrape(port) for name, port in ports.items()}, time.monotonic() - since
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / "metrics.txt").write_bytes(get(ports["coordinator"], "/metrics")[1])
            (keep / "metrics-party.txt").write_bytes(get(ports[names[1]], "/metrics")[1])
            (keep / "console.html").write_bytes(get(ports["coordinator"], "/")[1])
    table(before, after, seconds)


def table(before: dict[str, Scraped], after: dict[str, Scraped], seconds: float) -> None:
    """One line for each process of each node."""
    print("| node | program | processes | resident MB | change | processor s | of a core | open files | change |")
    print("|---|---|---|---|---|---|---|---|---|")
    for node, found in after.items():
        for process in sorted({process for _, process in found if process}):
            resident, files, cpu, count = (
                f"consilium_process_{name}" for name in ("resident_bytes", "open_files", "cpu_seconds_total", "count")
            )
            if (resident, process) not in found:
                continue
            was = before[node]
            used = found[cpu, process] - was.get((cpu, process), 0.0)
            grown = (found[resident, process] - was.get((resident, process), 0.0)) / 1e6
            more = found[files, process] - was.get((files, process), 0.0)
            print(
                f"| {node} | {process} | {found[count, process]:.0f} | {found[resident, process] / 1e6:.0f}"
                f" | {grown:+.1f} | {used:.1f} | {used / seconds:.1%} | {found[files, process]:.0f} | {more:+.0f} |"
            )


def main() -> None:
    """Entry point of `python -m benchmarks.deployment.idle`."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    given.add_argument("--minutes", type=float, default=10)
    given.add_argument("--keep", type=Path)
    options = given.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options.minutes, options.keep)


if __name__ == "__main__":
    main()
