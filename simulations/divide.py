"""One division of one data set with one seed: what every method of a study is given.

Some rows of every party are held out at home. Nobody trains on them, neither teachers nor any other method, so that all
methods are judged on the same rows of each party.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from consilium.coordinator.config import FederationConfig
from consilium.protocol.errors import ConfigError
from consilium.protocol.rows.queries import canonical_queries
from consilium.simulations.datasets.base import Dataset, Source
from consilium.simulations.population import public
from consilium.simulations.population.partition import Partition
from consilium.simulations.scenario import Scenario, divided_data
from consilium.simulations.workspace import federation_config

_PURPOSE = 0x686F6D65726F7773


@dataclass(frozen=True)
class Case:
    """Everything is secret but `config`, and the rows of `pool_x` and `test_x`.

    partition: its parties have the rows that they train on. home: row indices int64 that each party holds out, by name;
    those without any are left out. config: as the coordinator has it.
    """

    scenario: Scenario
    seed: int
    config: FederationConfig = field(repr=False)
    dataset: Dataset = field(repr=False)
    partition: Partition = field(repr=False)
    home: dict[str, np.ndarray] = field(repr=False)

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.partition.parties)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.config.rows.classes

    @property
    def pool_x(self) -> np.ndarray:
        """Rows that the student may ask, as they travel: canonical float32 (pool, features)."""
        return public.queries(self.dataset, self.partition)

    @property
    def pool_y(self) -> np.ndarray:
        """Their true labels int64 (pool,), which only a simulation has."""
        return self.dataset.y[self.partition.queries]

    @property
    def test_x(self) -> np.ndarray:
        """Public rows that students are judged on: canonical float32 (test, features)."""
        return self._canonical(self.partition.test)

    @property
    def test_y(self) -> np.ndarray:
        return self.dataset.y[self.partition.test]

    @property
    def home_rows(self) -> np.ndarray:
        """Row indices int64 (home,) of all that is held out at home, party after party in the order of `parties`."""
        parts = [self.home[party] for party in self.parties if party in self.home]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    @property
    def home_party(self) -> np.ndarray:
        """Index int64 (home,) into `parties`: where each of `home_rows` is."""
        sizes = [len(self.home.get(party, ())) for party in self.parties]
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def home_x(self) -> np.ndarray:
        """Canonical float32 (home, features)."""
        return self._canonical(self.home_rows)

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
        return replace(self, scenario=clear, config=federation_config(clear, self.dataset, self.partition, self.seed))

    def _canonical(self, rows: np.ndarray) -> np.ndarray:
        width = len(self.dataset.features)
        if not len(rows):
            return np.zeros((0, width), dtype=np.float32)
        return canonical_queries(self.dataset.x[rows], width)


def make_case(scenario: Scenario, seed: int, home_share: float, source: Source | None = None) -> Case:
    """Divide the data, and hold `home_share` of each party's rows out at home (of whole patients, where these are
    known; rounded down, so that a small party may hold out none, and always keeps one to train on).

    With `home_share` 0 it is the division of `consilium run` with this seed. source: see `divided_data`.

    Raises
    ------
    ConfigError : noise that is in the sums already; `simulation.policies`. NotEnoughParties,
        DataError : see `divided_data`.
    """
    clear = clear_votes(scenario)
    dataset, whole = divided_data(scenario, seed, source)
    parties, home = dict(whole.parties), {}
    for index, (party, rows) in enumerate(whole.parties.items()):
        units = np.arange(len(rows)) if dataset.patient is None else dataset.patient[rows]
        out = _held_out(units, home_share, np.random.default_rng([seed, _PURPOSE, index]))
        if out.any():
            parties[party], home[party] = rows[~out], rows[out]
    partition = replace(whole, parties=parties)
    return Case(clear, seed, federation_config(clear, dataset, partition, seed), dataset, partition, home)


def clear_votes(scenario: Scenario) -> Scenario:
    """As a study collects votes: the same ones, in this process, with the coordinator's own noise. The student is
    promised the same; where the noise is in the sums, a check has more noise than here.

    Raises
    ------
    ConfigError : a mechanism whose noise others add; `simulation.policies`.
    """
    if scenario.federation.mechanism.noise_by_parties:
        raise ConfigError(
            f'federation.votes = "{scenario.federation.votes}" with {scenario.federation.mechanism.name} has noise in'
            " its sums already, and a study draws it anew",
            'Set federation.votes = "clear" and a mechanism of the coordinator: the same noise costs the same',
        )
    if scenario.simulation.policies:
        raise ConfigError("a study has no simulation.policies: all parties take part", "Leave them out")
    return scenario.model_copy(
        update={"federation": scenario.federation.model_copy(update={"votes": "clear", "exact_sums": False})}
    )


def _held_out(units: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """bool (rows,): of the units (patients, or rows) the share by lot, rounded down."""
    different = np.unique(units)
    return np.isin(units, generator.permutation(different)[: int(share * len(different))])
