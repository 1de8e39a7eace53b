"""One party with a slow link, without a link, and with a full disk."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.deployment.federation import BATCH, FAULTY, federation, row, timed_batch, told, wrong

SLOW_DELAY_MS, SLOW_BITS = 300, 1_000_000


def link_faults() -> None:
    """One party with a slow link, without a link, and with a full disk."""
    with federation() as these, small_disk(these.kit(FAULTY) / "state"):
        these.start_all()
        these.serving()
        timed_batch(these, "none: a batch in peace")
        these.network.slow(FAULTY, SLOW_DELAY_MS, SLOW_BITS)
        time.sleep(5)
        timed_batch(these, f"one party's link {SLOW_DELAY_MS} ms late each way, {SLOW_BITS / 1e6:g} Mbit/s")
        these.network.fast(FAULTY)
        time.sleep(5)
        begun, count, pool = time.monotonic(), len(these.events()), these.batch()
        student = these.ask(pool, "cut")
        these.wait_event(count, 200, event="stage", stage="secure sum: share")
        these.network.cut(FAULTY)
        outcome = these.finish(student, "cut")
        row("one party's cable cut while shares are sent",
            f"{outcome}; {these.left_out(count)}; {these.checked(BATCH)}", begun)  # fmt: skip
        these.network.mend(FAULTY)
        time.sleep(40)
        timed_batch(these, "the cable mended 40 s ago, nothing restarted")
        filler = fill(these.kit(FAULTY) / "state")
        position = these.position(FAULTY)
        timed_batch(these, "one party's disk full")
        log = (these.kit(FAULTY) / "state" / "logs" / "supernode.log").read_text(errors="replace")
        named = sorted(set(re.findall(r"(?:No space left|disk is full|disk I/O error)[^\n]{0,60}", log)))
        row("  what that party says", f"{told(these.said(FAULTY, position).splitlines())}; log: {named}",
            time.monotonic())  # fmt: skip
        checked = these.hosts[FAULTY].command("doctor", str(these.kit(FAULTY)))
        row("  its doctor", wrong(checked.stdout), time.monotonic())
        filler.unlink()
        timed_batch(these, "room made, nothing restarted")


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of 40 MB as a folder."""
    folder.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=700", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk to the last byte; removing the file makes room."""
    path = folder / "filler"
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return path
