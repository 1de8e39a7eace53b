"""Two coordinators on one ledger: no query is charged twice, none gets two labels, none is lost."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.protocol.errors import LedgerError
from consilium.protocol.noise import SystemNoise
from tests.coordinator.labels.concurrency import shared_config, storm
from tests.coordinator.labels.test_service import T, Votes
from tests.federation import make_rows

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_two_processes_and_many_students(tmp_path: Path) -> None:
    """Two hundred requests here."""
    result = storm(tmp_path, requests=200, rows=150)
    assert result["queries"] == 150 or result["queries"] > 120
    assert result["batches"] > 10


def test_many_coordinators_may_create_the_ledger_at_once(tmp_path: Path) -> None:
    config = shared_config(10)
    for number in range(20):
        together = threading.Barrier(8)

        def create(path: Path = tmp_path / f"{number}.db", together: threading.Barrier = together) -> tuple[int, int]:
            together.wait()
            with closing(Ledger(path, config.digest(), "{}")) as ledger:
                return ledger.spent()

        with ThreadPoolExecutor(8) as pool:
            assert [f.result() for f in [pool.submit(create) for _ in range(8)]] == [(0, 0)] * 8


FULL = """
import resource, signal, sys
from pathlib import Path
from consilium.coordinator.events import EventLog
from consilium.coordinator.ledger import Ledger
from consilium.protocol.noise import SystemNoise
from consilium.coordinator.label_service import LabelService
from consilium.protocol.errors import LedgerError
from tests.coordinator.labels.concurrency import shared_config
from tests.coordinator.labels.test_service import T, Votes
from tests.federation import make_rows
folder = Path(sys.argv[1])
config = shared_config(4000)
ledger = Ledger.of(folder / "ledger.db", config)
service = LabelService(config, ledger, Votes(), lambda _: SystemNoise(), T, EventLog(folder / "e.jsonl"))
x, _ = make_rows(3000, 1)
first = service.ask(x[:10])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing beyond the limit then fails as on a full disk
size = (folder / "ledger.db").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20_000, resource.RLIM_INFINITY))
try:
    service.ask(x[10:])
    sys.exit("labels left although the disk is full")
except LedgerError as error:
    print(error)
assert ledger.spent() == (10, int(first.answered.sum()))
assert (service.ask(x[:10]).labels == first.labels).all()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert len(service.ask(x[10:])) == 2990  # space again: the run goes on
assert len(ledger.batches()) == 2
"""


@pytest.mark.slow
def test_a_full_disk_releases_nothing_and_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "the disk takes no more" in done.stdout
    assert "nothing leaves this node" in done.stdout


def test_a_read_only_ledger_releases_nothing(tmp_path: Path, log) -> None:
    config = shared_config(100)
    path = tmp_path / "ledger.db"
    Ledger(path, config.digest(), "{}").close()
    # root may write to a file whatever its mode says: a read-only connection fails for everybody
    ledger = Ledger(path, config.digest(), "{}")
    ledger._file.execute("PRAGMA query_only=ON")
    service = LabelService(config, ledger, Votes(), lambda _: SystemNoise(), T, log)
    with pytest.raises(LedgerError, match="cannot be written"):
        service.ask(make_rows(5, 1)[0])
    assert ledger.spent() == (0, 0)
    ledger.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write whatever the mode says")
def test_a_ledger_without_write_permission_is_refused(tmp_path: Path) -> None:
    config = shared_config(100)
    path = tmp_path / "ledger.db"
    Ledger(path, config.digest(), "{}").close()
    path.chmod(stat.S_IRUSR)
    with pytest.raises(LedgerError):
        Ledger(path, config.digest(), "{}")


def test_the_lock_is_given_back_when_its_holder_is_killed(tmp_path: Path) -> None:
    config = shared_config(10)
    ledger = Ledger.of(tmp_path / "ledger.db", config)
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom consilium.coordinator.ledger import Ledger\n"
        f"with Ledger(Path({str(tmp_path / 'ledger.db')!r}), {config.digest()!r}, '{{}}').exclusive():\n"
        "    print('held', flush=True)\n    time.sleep(3600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.wait()
    with ledger.exclusive():  # would wait for a minute otherwise
        assert ledger.next_batch() == 1
    ledger.close()
