"""What a node's processes use: memory, processor time and open files, from /proc; nothing where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from consilium.protocol.node.kit import Kit

OWN = "node"
"""What the node's own process is called, beside those that it supervises."""
PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ProcessUse:
    """Of a program with all that it started. resident_bytes counts pages that they share once for each.

    cpu_seconds: of those that live, and of their children that have ended.
    """

    processes: int
    resident_bytes: int
    cpu_seconds: float
    open_files: int


class _Stat(NamedTuple):
    parent: int
    session: int
    ticks: int
    pages: int


def processes_of(kit: Kit) -> dict[str, ProcessUse]:
    """The node's own process and those that it supervises, by name; only those that live."""
    pids = supervised(kit.logs)
    uses = use_of_trees(pids.values())
    own = use_of(os.getpid())
    found = {name: uses[pid] for name, pid in pids.items() if pid in uses}
    return {OWN: own, **found} if own is not None else found


def supervised(logs: Path) -> dict[str, int]:
    """Process ids of the programs that a supervisor keeps up, by name, from its marks beside their logs."""
    found = {}
    for mark in sorted(logs.glob("*.pid")):
        try:
            found[mark.stem] = int(mark.read_text())
        except (OSError, ValueError):  # it ends at this moment
            continue
    return found


def use_of_trees(roots: Iterable[int]) -> dict[int, ProcessUse]:
    """Of each process that lives, with its descendants and all of the session that it leads."""
    table = _processes()
    return {root: _together(table, _tree(table, root)) for root in roots if root in table}


def use_of(pid: int) -> ProcessUse | None:
    """Of one process alone; None where it is gone."""
    table = _processes()
    return _together(table, {pid}) if pid in table else None


def _tree(table: dict[int, _Stat], root: int) -> set[int]:
    found, size = {root}, 0
    while len(found) > size:
        size = len(found)
        found |= {pid for pid, stat in table.items() if stat.parent in found or stat.session == root}
    return found


def _together(table: dict[int, _Stat], pids: set[int]) -> ProcessUse:
    return ProcessUse(
        processes=len(pids),
        resident_bytes=sum(table[pid].pages for pid in pids) * _PAGE,
        cpu_seconds=sum(table[pid].ticks for pid in pids) / _TICK,
        open_files=sum(_open_files(pid) for pid in pids),
    )


def _processes() -> dict[int, _Stat]:
    found = {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()  # the name before it may hold anything
        except OSError:
            continue
        times = sum(map(int, fields[11:15]))  # utime, stime, and those of children that were waited for
        found[int(path.parent.name)] = _Stat(int(fields[1]), int(fields[3]), times, int(fields[21]))
    return found


def _open_files(pid: int) -> int:
    try:
        return sum(1 for _ in os.scandir(PROC / str(pid) / "fd"))
    except OSError:  # gone, or another user's
        return 0
