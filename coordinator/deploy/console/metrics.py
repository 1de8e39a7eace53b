"""The coordinator's own metrics. Labels are names of parties, their states, and stages."""

from __future__ import annotations

from collections.abc import Iterator

from consilium.coordinator.deploy.console.view import ConsoleView
from consilium.coordinator.run_state import AWAY, STAGES, TROUBLES
from consilium.node.metrics import MetricFamily, one


def coordinator_metrics(view: ConsoleView, serves_students: bool) -> Iterator[MetricFamily]:
    """Of one moment."""
    yield MetricFamily(
        "stage", "1 for the stage that the federation is in.",
        {(stage,): float(stage == view.kind_of_stage) for stage in STAGES}, ("stage",),
    )  # fmt: skip
    yield one("stage_done", "How far the stage is, of stage_total.", view.done)
    yield one("stage_total", "Length of the stage; 0 or 1 where nobody knows it.", view.total)
    yield MetricFamily(
        "party_state", "1 for the state that a party is in.",
        {(party.name, party.state): 1.0 for party in view.parties}, ("party", "state"),
    )  # fmt: skip
    yield MetricFamily(
        "party_connected", "1 while a party's node is connected.",
        {(party.name,): float(party.connected) for party in view.parties}, ("party",),
    )  # fmt: skip
    if view.aggregators:
        yield MetricFamily(
            "aggregator_connected", "1 while the second aggregator's node is connected.",
            {(name,): float(told != AWAY) for name, told in view.aggregators.items()}, ("aggregator",),
        )  # fmt: skip
    yield one("label_service_listens", "1 while students can connect.", serves_students)
    yield one("queries_asked", "Queries that students have asked, of queries_most.", view.queries_asked, counter=True)
    yield one("queries_most", "Queries that may ever be asked.", view.queries_most)
    yield one("epsilon_so_far", "Epsilon if every query so far had been answered. No guarantee.", view.epsilon_so_far)
    yield one(
        "epsilon_promised",
        "Epsilon if the whole query budget is used up: the guarantee, at delta.",
        view.epsilon_guaranteed,
    )
    yield one("epsilon_student", "Of it, what holds towards the student and the public.", view.epsilon_student)
    if view.epsilon_nodes is not None:
        yield one("epsilon_nodes", "What holds towards whoever sees noisy sums of the votes.", view.epsilon_nodes)
    yield one("delta", "Of the guarantee.", view.delta)
    yield MetricFamily(
        "troubles", "What went wrong, by kind, as the event log of the run has it.",
        {(kind,): float(view.trouble_counts.get(kind, 0)) for kind in TROUBLES}, ("kind",), counter=True,
    )  # fmt: skip
