"""The teachers of one case, trained as parties train them."""

from __future__ import annotations

from collections.abc import Iterator

from consilium.coordinator.collection.admission import Greeting
from consilium.party.node import PartyNode
from consilium.party.store import Store
from consilium.protocol.label_source import Progress, no_progress
from consilium.report.progress import TRAIN_TEACHERS
from consilium.simulations.divide import Case
from consilium.simulations.population.parties import check_own_teachers
from consilium.simulations.simulated import Population, unremarked

NO_LEDGER = "0" * 64


def teach(case: Case, progress: Progress = no_progress) -> Iterator[tuple[int, PartyNode]]:
    """Index of each party, and itself, with its teachers, until the next is taken. Raises ConfigError: a kind of
    teacher does not fit the rows."""
    check_own_teachers(case.scenario.simulation, case.config.rows)
    population = Population.of(case)
    hello, train = Greeting.of_empty(NO_LEDGER).request(case.config), case.config.train_request()
    with unremarked():
        for index in range(len(case.parties)):
            progress(TRAIN_TEACHERS, index, len(case.parties))
            store = Store.in_memory()
            node = population.party(index, store)
            node.hello(hello)
            node.train(train)
            yield index, node
            store.close()
    progress(TRAIN_TEACHERS, len(case.parties), len(case.parties))
