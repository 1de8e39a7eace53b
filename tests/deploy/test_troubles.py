"""What goes wrong with a machine, on processes: its clock, its disk, a lock, a restored backup. Whoever asks `status`
or `doctor` hears it in seconds, nothing is lost, and it goes on by itself once the trouble is over."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import consilium
from tests.deploy.processes import Federation, running
from tests.deploy.site import PARTIES, make_site

pytestmark = [pytest.mark.deploy, pytest.mark.slow, pytest.mark.proofs, pytest.mark.timeout(1500)]
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long shift(void) { char *text = getenv("CLOCK_AHEAD"); return text ? atol(text) : 0; }
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(id, at);
    if (!done && id == CLOCK_REALTIME) at->tv_sec += shift();
    return done;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now; clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec; at->tv_usec = now.tv_nsec / 1000; return 0;
}
time_t time(time_t *at) {
    struct timespec now; clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec; return now.tv_sec;
}
"""
"""A library that has a process, and all that it starts, see another time."""


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """Three parties, all of which are needed; states of the coordinator and of one party are on small disks."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    site = make_site(tmp_path_factory.mktemp("troubles"), minimum_parties=3)
    small = [site / "coordinator" / "state", site / PARTIES[0] / "state"]
    for path in small:
        path.mkdir(mode=0o700, exist_ok=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "tmpfs", path], check=False).returncode:
            pytest.skip("no disk can be mounted here")
    try:
        with running(site, ["coordinator", *PARTIES]) as federation:
            federation.serving()
            assert federation.asked("student-0", 0)["asked"] == 8
            yield federation
    finally:
        for path in small:
            subprocess.run(["umount", "-l", path], check=False)


def told(federation: Federation, name: str) -> str:
    """What status and doctor say, whatever they find."""
    asked = [consilium(command, federation.site / name) for command in ("status", "doctor")]
    return " ".join(" ".join(done.output.split()) for done in asked)


@contextlib.contextmanager
def full(folder: Path) -> Iterator[None]:
    """Nothing more can be written there."""
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    try:
        yield
    finally:
        ballast.unlink()


def test_a_full_disk_at_a_party(federation: Federation) -> None:
    with full(federation.site / PARTIES[0] / "state"):
        student = federation.asks("student-1", 8)
        federation.wait(lambda: "storage" in told(federation, "coordinator"), "the coordinator knows")
        assert "Make room" in told(federation, PARTIES[0])
    assert federation.answer(student)["asked"] == 8


def test_a_full_disk_at_the_coordinator(federation: Federation) -> None:
    with full(federation.site / "coordinator" / "state"):
        student = federation.asks("student-2", 16)
        federation.wait(lambda: "Make room" in told(federation, "coordinator"), "it says so")
    assert federation.answer(student)["asked"] == 8


@pytest.mark.parametrize("name", ["coordinator", PARTIES[1]])
def test_a_lock_is_waited_for_and_told(federation: Federation, name: str) -> None:
    ledger, store = federation.run_folder() / "ledger.db", federation.site / name / "state" / "party.db"
    database = ledger if name == "coordinator" else store
    first = 24 if name == "coordinator" else 32
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        student = federation.asks(f"student-{first}", first)
        federation.wait(lambda: "locked" in told(federation, name), "it says so")
        other.execute("ROLLBACK")
    assert federation.answer(student)["asked"] == 8


def test_a_clock_two_hours_ahead_is_no_revocation(federation: Federation, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    (tmp_path / "clock.c").write_text(CLOCK)
    library = tmp_path / "clock.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "clock.c", "-ldl"], check=True)
    name = PARTIES[2]
    federation[name].stop()
    federation.start(name, env={"LD_PRELOAD": str(library), "CLOCK_AHEAD": "7200"})
    federation.wait(lambda: "clock" in federation[name].said, "it hears that its clock is wrong")
    assert "revoked" not in federation[name].said
    federation[name].stop()
    federation.start(name)
    assert federation.asked("student-40", 40)["asked"] == 8


def test_a_restored_ledger_is_refused_and_the_newest_goes_on(federation: Federation) -> None:
    state = federation.site / "coordinator" / "state"
    federation.coordinator.stop()
    old = shutil.copytree(state, federation.site / "old")
    federation.again("coordinator")
    assert federation.asked("student-48", 48)["asked"] == 8
    federation.coordinator.stop()
    new = shutil.copytree(state, federation.site / "new")
    put(old, state)
    federation.start("coordinator")
    federation.wait(lambda: "of this ledger" in told(federation, "coordinator"), "parties refuse it")
    federation.coordinator.stop()
    put(new, state)
    federation.again("coordinator")
    assert federation.asked("student-56", 56)["asked"] == 8
    federation.close("student-0", "student-48", "student-56")
    labels = federation.labels()
    assert len(labels) == len(set(labels)) == 8 * len(federation.students)


def put(source: Path, state: Path) -> None:
    """In its place."""
    for path in state.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(source, state, dirs_exist_ok=True)
