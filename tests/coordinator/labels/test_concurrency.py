"""Two coordinators on one ledger: no query is charged twice, none gets two labels, none is lost."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.protocol.errors import LedgerError
from consilium.protocol.label_source import Outcome
from consilium.protocol.noise import SystemNoise
from consilium.protocol.queries import canonical_queries, query_ids
from tests.coordinator.labels.test_service import T, Votes
from tests.federation import make_config, make_rows

ROOT = Path(__file__).resolve().parents[3]
ROWS = 150


BUDGET = QueryBudget(queries=4000, answers=4000)
REAL = make_config(simulation=False, noise_seed=None, seed=-1, query_budget=BUDGET)
"""With real noise, as a deployed one."""


def serve(ledger: Ledger) -> LabelService:
    return LabelService(REAL, ledger, Votes(), lambda _: SystemNoise(), T)


def test_two_coordinators_and_many_students(tmp_path: Path) -> None:
    """Two hundred requests of one to three rows each; each coordinator has the ledger open for itself."""
    x = canonical_queries(make_rows(ROWS, 11)[0], 3)
    ids, generator = query_ids(x), np.random.default_rng(0)
    wanted = [generator.choice(ROWS, size=generator.integers(1, 4), replace=False) for _ in range(200)]
    with ExitStack() as stack:
        ledgers = [stack.enter_context(closing(Ledger.of(tmp_path / "ledger.db", REAL))) for _ in range(2)]
        services = [serve(ledger) for ledger in ledgers]

        def ask(number: int) -> list[tuple[str, int, int]]:
            answers = services[number % 2].ask(x[wanted[number]])
            names = [ids[row] for row in wanted[number]]
            return list(zip(names, answers.outcomes.tolist(), answers.labels.tolist(), strict=True))

        with ThreadPoolExecutor(16) as pool:
            got = {each for said in pool.map(ask, range(200)) for each in said}
        batches, recorded = ledgers[0].batches(), ledgers[1].find(ids)
        asked, answered = ledgers[0].spent()
    assert len({query_id for query_id, _, _ in got}) == len(got), "one query, two labels"
    assert got == {(name, int(release.outcome), release.label) for name, release in recorded.items()}, "a label is lost"
    assert asked == len(got) == sum(len(batch.query_ids) for batch in batches), "a query was charged twice"
    assert answered == sum(outcome == Outcome.ANSWERED for _, outcome, _ in got)
    assert len(batches) > 10


def test_many_coordinators_may_create_the_ledger_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def create(path: Path) -> tuple[int, int]:
        together.wait()
        with closing(Ledger.of(path, REAL)) as ledger:
            return ledger.spent()

    with ThreadPoolExecutor(8) as pool:
        for number in range(10):
            assert list(pool.map(create, [tmp_path / f"{number}.db"] * 8)) == [(0, 0)] * 8


def test_a_full_disk_releases_nothing_and_loses_nothing(tmp_path: Path) -> None:
    x = make_rows(3000, 1)[0]
    with closing(Ledger.of(tmp_path / "ledger.db", REAL)) as ledger:
        service = serve(ledger)
        first = service.ask(x[:10])
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        # a write beyond the limit ends as on a full disk, in the middle
        resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "ledger.db").stat().st_size + 20_000, before[1]))
        try:
            with pytest.raises(LedgerError, match=r"the disk takes no more.*nothing leaves this node"):
                service.ask(x[10:])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert ledger.spent() == (10, int(first.answered.sum()))
        assert (service.ask(x[:10]).labels == first.labels).all()
        assert len(service.ask(x[10:])) == 2990  # space again: the run goes on
        assert len(ledger.batches()) == 2


def test_the_lock_is_given_back_when_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom consilium.coordinator.ledger import Ledger\n"
        f"with Ledger(Path({str(path)!r}), {REAL.digest()!r}, '{{}}').exclusive():\n"
        "    print('held', flush=True)\n    time.sleep(3600)\n"
    )
    with closing(Ledger.of(path, REAL)) as ledger:
        holder = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        holder.kill()
        holder.wait()
        with ledger.exclusive():  # would wait for ever otherwise
            assert ledger.next_batch() == 1
