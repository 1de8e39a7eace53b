"""kill -9 of each kind of node in the middle of votes, without a hand: who is answered, what is charged, how soon.

Federations with verified votes, from kits, each node in a network namespace of its own: a coordinator with its gateway,
a second aggregator, three hospitals and a student. Each question asks new rows; at a moment by lot after its vote has
begun, all processes of one machine are killed, as when it loses power, and started again, as a supervisor does. Several
federations share the kills, and run at once.

    python -m benchmarks.deployment.kills [--kills 50] [--federations 2] [--minutes 60] [--loopback] [--seed 0]

Exit status 1 if one is not answered, or something is charged that was not asked. RECORD_FIGURES=1 records the table.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.deployment.exports import EXPORTS
from benchmarks.deployment.interrupted import Answered, Questions, kill
from benchmarks.deployment.machines import machines
from benchmarks.deployment.record import DrillEnded, Record
from benchmarks.deployment.site import POOL, Site
from docs.figures import figure
from tests.deploy import netns

HOSPITALS = tuple(EXPORTS)[:3]
ROWS, LATEST = 2, 12.0
"""New rows of a question; seconds from the beginning of its vote until the kill, at most."""
SMALL = {
    "collection": "verified",
    "teachers_per_party": 2,
    "minimum_parties": 2,
    "query_budget": {"queries": POOL, "answers": POOL},
    "timeouts": {"join": 1, "student": 36_000},
}
KINDS: tuple[str, ...] = ("coordinator and gateway", "second aggregator", "party", "student")


@dataclass(frozen=True)
class Kill:
    """Of which kind of node, and what came of the question."""

    kind: str
    answered: Answered


@dataclass(frozen=True)
class Share:
    """Of one federation: its number, how many kills, seconds that it may take, and where the nodes are."""

    number: int
    kills: int
    seconds: float
    seed: int
    loopback: bool


def victims(share: Share) -> Iterator[tuple[str, float]]:
    """Kinds in turn, beginning with another one in each federation, and seconds after the beginning of the vote."""
    lot = random.Random(share.seed * 1000 + share.number)
    for at in range(share.kills):
        yield KINDS[(share.number + at) % len(KINDS)], lot.uniform(0, LATEST)


def killed(share: Share) -> tuple[list[Kill], str]:
    """See `_killed`. Where SIGTERM ends it, its process ends with it, which the pool would keep."""
    try:
        return _killed(share)
    except SystemExit:
        os._exit(1)


def _killed(share: Share) -> tuple[list[Kill], str]:
    """Kills in one federation, and what its audit says after it was closed."""
    done: list[Kill] = []
    with tempfile.TemporaryDirectory() as folder:
        record = Record(Path(folder) / "transcript.txt", [folder], quiet=True)
        with machines(Path(folder), share.loopback) as made:
            site, begun = Site(made, record, HOSPITALS, second=True), time.monotonic()
            try:
                site.prepare(SMALL)
                after = site.start(site.coordinator)
                for machine in site.nodes[1:]:
                    site.start(machine)
                site.serving(after)
                lot, questions = random.Random(share.seed + share.number), Questions(site, ROWS)
                for kind, delay in victims(share):
                    if time.monotonic() > begun + share.seconds:
                        break
                    hospital = site.party(lot.choice(HOSPITALS))
                    second = site.second or hospital
                    victim = dict(zip(KINDS, (site.coordinator, second, hospital, site.student), strict=True))[kind]
                    done.append(Kill(kind, questions.ask(lambda victim=victim: kill(site, victim), delay)))
                    print(f"{share.number}: {victim.name} killed {done[-1].answered.words}", flush=True)
                site.at(site.coordinator, "node close . --wait 300", needed=True)
                told = json.loads(site.at(site.coordinator, "audit . --format json", needed=True))
                return done, "passed" if not told.get("failed") else "FAILED"
            except (DrillEnded, subprocess.TimeoutExpired, OSError) as error:
                print(f"{share.number}: it could not go on: {error}", file=sys.stderr, flush=True)
                return done, "not reached"


def shares(kills: int, federations: int, seconds: float, seed: int, loopback: bool) -> list[Share]:
    """All kills, as evenly as they go."""
    even, more = divmod(kills, federations)
    return [Share(at, even + (at < more), seconds, seed, loopback) for at in range(federations)]


def rows_of(kills: Sequence[Kill]) -> Iterator[tuple[str, int, int, int, int, int, int]]:
    """Of the table: kills, questions that were answered, and whose rows are charged once; median and longest seconds
    until the answer; kills before the vote was over."""
    for kind in (*KINDS, "all"):
        of = [each.answered for each in kills if kind in (each.kind, "all")]
        if of:
            seconds = [each.seconds for each in of]
            yield (
                kind, len(of), sum(bool(each.stage) for each in of), sum(each.answered for each in of),
                sum(each.whole for each in of), round(statistics.median(seconds)), round(max(seconds)),
            )  # fmt: skip


COLUMNS = (
    "killed", "kills", "of them in a vote", "answered without a hand", "asked = charged", "median s", "longest s",
)  # fmt: skip


def main() -> None:
    """Entry point of `python -m benchmarks.deployment.kills`."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    given.add_argument("--kills", type=int, default=50)
    given.add_argument("--federations", type=int, default=2, help="that run at once, and share the kills")
    given.add_argument("--minutes", type=float, default=600, help="after which no more is begun")
    given.add_argument("--seed", type=int, default=0)
    given.add_argument("--loopback", action="store_true", help="without namespaces, and so without root")
    options = given.parse_args()
    if not options.loopback and (why := netns.why_not()):
        sys.exit(f"not run: {why}. Run it as root, or with --loopback")
    parts = shares(options.kills, options.federations, options.minutes * 60, options.seed, options.loopback)
    with ProcessPoolExecutor(options.federations) as pool:
        ended = list(pool.map(killed, parts))
    done = [each for kills, _ in ended for each in kills]
    audits = [audit for _, audit in ended]
    split = (
        f"made-up exports; {options.federations} federations at once, whose audits after the close: {', '.join(audits)}"
    )
    with figure(
        "deployment-results/kills", "python -m benchmarks.deployment.kills", COLUMNS, seeds=[options.seed], split=split,
        timings=COLUMNS[-2:], quick=False,
    ) as table:  # fmt: skip
        for row in rows_of(done):
            table.add(*row)
    lost = [each for each in done if not (each.answered.answered and each.answered.whole)]
    print(f"\n{options.kills} kills, {options.kills - len(done) + len(lost)} not as they should be")
    sys.exit(1 if lost or len(done) < options.kills or {*audits} != {"passed"} else 0)


if __name__ == "__main__":
    main()
