"""Changes that make of `stroke` a run of seconds."""

SMALL = [
    "data.least_rows=150",
    "federation.minimum_parties=5",
    "federation.voting_rule={rule='relative'}",
    "federation.mechanism={name='confident', threshold=10, sigma1=20.0, sigma2=8.0}",
    "federation.query_budget.queries=300",
    "federation.query_budget.answers=200",
    "student.batch=10",
    "student.rounds=2",
    "student.selection=margin",
    "federation.timeouts.enrol=250",
    "simulation.manual_labels=none",
]
