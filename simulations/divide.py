"""One division of one data set with one seed: what every method of a study is given. Some rows of every party are held
out at home: nobody trains on them, so that all methods are judged on the same rows of each party."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from consilium.coordinator.config import FederationConfig
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.queries import canonical_queries, draw_reference, query_ids, reference_text
from consilium.protocol.schema import why_no_images
from consilium.simulations.datasets.base import Dataset, Source
from consilium.simulations.population import public
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.specs import SimulatedKeys, simulated_keys
from consilium.simulations.scenario import Scenario, divided_data
from consilium.student.pool import Pool

_PURPOSE = 0x686F6D65726F7773
_LABELLED = 0x6C6162656C


T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """Everything is secret but `config`, and the rows of `pool_x` and `test_x`. scenario: with the student that its
    rows get where none is named (`StudentSpec.for_rows`). partition: its parties have the rows that they train on.
    home: row indices int64 that each party holds out, by name, where it holds out any. config: the coordinator's."""

    scenario: Scenario
    seed: int
    config: FederationConfig = field(repr=False)
    dataset: Dataset = field(repr=False)
    partition: Partition = field(repr=False)
    home: dict[str, np.ndarray] = field(repr=False)
    _made: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)
    """What follows from the division alone, once it was asked for: shared by cases of one division, see `of`."""

    def __post_init__(self) -> None:
        student = self.scenario.student.for_rows(self.config.rows)
        object.__setattr__(self, "scenario", self.scenario.model_copy(update={"student": student}))

    @cached_property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.partition.parties)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.config.rows.classes

    @property
    def pool_x(self) -> np.ndarray:
        """Rows that the student may ask, as they travel: canonical float32 (pool, features), not to be written to."""
        return self._canonical("pool", self.partition.queries)

    @property
    def pool_ids(self) -> list[str]:
        return self.once("pool ids", lambda: query_ids(self.pool_x))

    @property
    def pool_y(self) -> np.ndarray:  # their true labels int64 (pool,), which only a simulation has
        return self.dataset.y[self.partition.queries]

    @property
    def known_labels(self) -> np.ndarray | None:
        """Classes int64 (pool,) that the student knows by `student.public_labels`, NO_LABEL elsewhere; None of none."""
        count = self.scenario.student.public_labels
        if not count:
            return None
        lot = np.random.default_rng([self.seed, _LABELLED]).permutation(len(self.pool_x))
        chosen, labels = lot[: None if count == "all" else count], np.full(len(lot), NO_LABEL, dtype=np.int64)
        labels[chosen] = self.pool_y[chosen]
        return labels

    @property
    def test_x(self) -> np.ndarray:
        """Public rows that students are judged on: canonical float32 (test, features), not to be written to."""
        return self._canonical("test", self.partition.test)

    @property
    def test_y(self) -> np.ndarray:
        return self.dataset.y[self.partition.test]

    @property
    def home_rows(self) -> np.ndarray:
        """Row indices int64 (home,) of all that is held out at home, party after party in the order of `parties`."""
        parts = [self.home[party] for party in self.parties if party in self.home]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    @property
    def home_party(self) -> np.ndarray:
        """Index int64 (home,) into `parties`: where each of `home_rows` is."""
        sizes = [len(self.home.get(party, ())) for party in self.parties]
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def home_x(self) -> np.ndarray:
        """Canonical float32 (home, features), not to be written to."""
        return self._canonical("home", self.home_rows)

    @property
    def home_y(self) -> np.ndarray:
        return self.dataset.y[self.home_rows]

    def train_rows(self, party: str) -> tuple[np.ndarray, np.ndarray]:
        """What a party trains on, as it travels: float32 (n, features) and labels int64 (n,)."""
        rows = self.partition.parties[party]
        return self.dataset.x[rows], self.dataset.y[rows]

    def of(self, scenario: Scenario) -> Case:
        """The same division, with what another scenario says of everything else."""
        clear = clear_votes(scenario)
        config = federation_config(clear, self.dataset, self.partition, self.seed, self.config)
        same = replace(self, scenario=clear, config=config)
        object.__setattr__(same, "_made", self._made)
        return same

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What was made under this name for any case of the division; `make` depends on nothing but the division."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    @property
    def patient(self) -> np.ndarray | None:
        """Of which patient each row of the data set is, int64 (rows,); None where nobody knows. In "groups" of rows
        without patients the owners are those who are dealt whole."""
        by_owner = self.dataset.patient is None and self.scenario.data.partition == "groups"
        return self.dataset.owner if by_owner else self.dataset.patient

    def identities(self) -> SimulatedKeys | None:
        """Keys and roster; None for plaintext votes. Raises ConfigError if no roster is safe."""
        return simulated_keys(self.scenario.federation, self.parties, self.seed)

    @property
    def pool(self) -> Pool:
        tested = (self.test_x, self.test_y) if len(self.test_y) else (None, None)
        return Pool(self.dataset.features, self.pool_x, *tested, labels=self.known_labels)

    def _canonical(self, name: str, rows: np.ndarray) -> np.ndarray:
        def made() -> np.ndarray:
            width = len(self.dataset.features)
            x = canonical_queries(self.dataset.x[rows], width) if len(rows) else np.zeros((0, width), dtype=np.float32)
            x.setflags(write=False)
            return x

        return self.once(name, made)


def divide(scenario: Scenario, seed: int, source: Source | None = None) -> Case:
    """The case of a whole run, which holds nothing out. source: see `divided_data`, which says what is raised beside
    what `federation_config` says."""
    dataset, partition = divided_data(scenario, seed, source)
    return Case(scenario, seed, federation_config(scenario, dataset, partition, seed), dataset, partition, {})


def make_case(scenario: Scenario, seed: int, home_share: float, source: Source | None = None) -> Case:
    """Divide the data, and hold `home_share` of each party's rows out at home (of whole patients, where these are
    known; rounded down: a party always keeps one to train on). With `home_share` 0 it is the division of `consilium
    run` with this seed. Raises, and source: see `divided_data`; ConfigError also: noise that is in the sums already."""
    clear = clear_votes(scenario)
    dataset, whole = divided_data(scenario, seed, source)
    parties, home = dict(whole.parties), {}
    for index, (party, rows) in enumerate(whole.parties.items()):
        units = np.arange(len(rows)) if dataset.patient is None else dataset.patient[rows]
        different = np.unique(units)
        lot = np.random.default_rng([seed, _PURPOSE, index]).permutation(different)
        out = np.isin(units, lot[: int(home_share * len(different))])
        if out.any():
            parties[party], home[party] = rows[~out], rows[out]
    partition = replace(whole, parties=parties)
    return Case(clear, seed, federation_config(clear, dataset, partition, seed), dataset, partition, home)


def clear_votes(scenario: Scenario) -> Scenario:
    """As a study collects votes: in this process, with the coordinator's own noise. The student is promised the same,
    but for what fine shares cost; where the noise is in the sums, a check has more noise than here."""
    federation = scenario.federation.model_copy(update={"collection": "plaintext"})
    return scenario.model_copy(update={"federation": federation})


def federation_config(
    scenario: Scenario, dataset: Dataset, partition: Partition, seed: int, similar: FederationConfig | None = None
) -> FederationConfig:
    """The coordinator's configuration; the schema's statistics come from the public rows alone. similar: another of the
    same division, which may have the same reference rows. Raises ConfigError: the scenario's classes are not the data
    set's, or a teacher for images gets none."""
    if scenario.data.classes not in ((), dataset.classes):
        raise ConfigError(
            f"data.classes {list(scenario.data.classes)} do not match data set {dataset.name!r},"
            f" which has {list(dataset.classes)}",
            "Use the same names in the same order",
        )
    schema = public.schema(scenario.data, dataset, partition)
    federation = scenario.federation
    wanted = federation.teacher, scenario.simulation.own_teacher
    if any(spec is not None and spec.of_images for spec in wanted) and (reason := why_no_images(schema)):
        raise ConfigError(
            f"teacher cnn does not fit {dataset.name!r}: {reason}",
            'Images need data.standardise=false and data.representation="none"; choose another teacher for other rows',
        )
    voting_rule, reference = federation.voting_rule, ""
    if similar is not None and (similar.rows, similar.voting_rule) == (schema, voting_rule):
        reference = similar.reference
    elif voting_rule.relative:
        pool = public.queries(dataset, partition)
        reference = reference_text(draw_reference(pool, schema, voting_rule.reference_rows))
    identities = simulated_keys(scenario.federation, list(partition.parties), seed)
    return FederationConfig.of(
        federation.model_copy(update={"timeouts": federation.timeouts.patient()}),
        rows=schema,
        simulation=True,
        seed=seed,
        noise_seed=seed if scenario.simulation.noise == "seeded" else None,
        record_votes=identities is None,
        roster=identities.roster.digest if identities else "",
        noise_shares=federation.sure_givers(identities.roster.least if identities else 0),
        reference=reference,
    )
