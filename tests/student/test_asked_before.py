"""A second student of the same pool gets what was asked before for free; rows that are spent are left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.protocol.errors import DataError, MalformedMessage
from consilium.protocol.label_source import RowStanding
from consilium.protocol.label_wire import ids_of, standings_of
from consilium.protocol.noise import SeededNoise
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.student.pool import Pool
from consilium.student.run import run_student
from tests.coordinator.labels.site import Site
from tests.coordinator.labels.test_service import T, Votes
from tests.federation import FEATURES, make_config, make_rows
from tests.specs import student_of

ROWS = canonical_queries(make_rows(100, 5)[0], 3)
IDS = query_ids(ROWS)


@pytest.fixture
def serve(tmp_path: Path, log) -> Iterator:
    """A label service over a pool of 100 rows with a cap of 60 queries."""
    ledgers = []

    def of(fixed: bool = True, spent: tuple[str, ...] = ()) -> LabelService:
        config = make_config(query_budget=QueryBudget(queries=60, answers=60))
        ledger = Ledger.of(tmp_path / "ledger.db", config)
        ledgers.append(ledger)
        pool = PoolTree.of_rows(ROWS) if fixed else None
        return LabelService(config, ledger, Votes(), SeededNoise, T, log, pool, spent_before=spent)

    yield of
    for ledger in ledgers:
        ledger.close()


def ask(source, out: Path, seed: int, **settings) -> tuple[int, list[str]]:
    """Rows that a student got an outcome for, and what it was told."""
    told: list[str] = []
    pool = Pool(FEATURES, ROWS)
    result = run_student(source, pool, student_of(C=1.0, **settings), out, seed, tell=told.append)
    return result["asked"], told


@pytest.mark.parametrize("seed", [0, 1])
def test_the_second_student_gets_what_the_first_asked_and_what_is_left(serve, tmp_path: Path, seed: int) -> None:
    """45 labels instead of 150: what was left was all that it asked for, and the first of them were recorded ones."""
    service = serve()
    assert ask(service, tmp_path / "1", 0, queries=45) == (45, [])
    found = ask(service, tmp_path / "2", seed)
    assert found == (60, ["45 public rows were asked before: their outcomes are free; 15 queries are left"])
    assert service.describe().queries_left == 0
    assert ask(service, tmp_path / "3", 7)[0] == 60  # the query budget is used up, and all of it is still free


def test_without_a_fixed_pool_nobody_is_told_what_others_asked(serve, tmp_path: Path) -> None:
    service = serve(fixed=False)
    ask(service, tmp_path / "1", 0, queries=45)
    assert (service.known(IDS) == RowStanding.OPEN).all()
    assert ask(service, tmp_path / "2", 1, queries=15) == (15, [])


def test_rows_of_an_earlier_federation_are_left_out_and_refused(serve, tmp_path: Path) -> None:
    service = serve(spent=tuple(IDS[:90]))
    asked, told = ask(service, tmp_path / "1", 0)
    assert (asked, told) == (10, ["90 rows were answered in an earlier federation of these parties and are left out"])
    assert (service.known(IDS) == [RowStanding.SPENT] * 90 + [RowStanding.RECORDED] * 10).all()
    left = service.describe().queries_left
    with pytest.raises(DataError, match=r"2 of 4 queries were answered in an earlier federation.*first: row 0"):
        service.ask(ROWS[[0, 95, 96, 3]])
    assert service.describe().queries_left == left
    assert len(service.ask(ROWS[90:])) == 10  # its own are free as ever


def test_the_socket_tells_the_same(serve, tmp_path: Path) -> None:
    service = serve(spent=tuple(IDS[:3]))
    service.ask(ROWS[3:9])
    site = Site(tmp_path / "site")
    with site.serving(service, 60) as address, site.channel(address) as channel:
        assert (channel.known(IDS) == service.known(IDS)).all()
        assert len(channel.known([])) == 0


@pytest.mark.parametrize(("reply", "count"), [(b"\0\0", 1), (b"\3", 1)])
def test_malformed_ids_and_standings_are_refused(reply: bytes, count: int) -> None:
    with pytest.raises(MalformedMessage, match="no query ids"):
        ids_of(b"x" * 31)
    with pytest.raises(MalformedMessage, match="standings"):
        standings_of(reply, count)
