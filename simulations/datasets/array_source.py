"""Rows that are numbers already, with labels as text: arrays and images."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.datasets.labels import LabelColumn
from consilium.simulations.datasets.parts import JoinedRows
from consilium.simulations.datasets.places import Places
from consilium.simulations.datasets.roles import RowRoles
from consilium.simulations.datasets.spec import SourceSpec


@dataclass(frozen=True)
class ArraySource:
    """A `Source` of which only the classes may be open until public rows are known. x: float32 (rows, features)."""

    name: str
    title: str
    attribution: str
    features: tuple[str, ...] = field(repr=False)
    owner_label: str
    x: np.ndarray = field(repr=False)
    labels: LabelColumn = field(repr=False)
    owner: np.ndarray = field(repr=False)
    owner_names: tuple[str, ...] | None = field(repr=False)
    patient: np.ndarray | None = field(repr=False)
    time: np.ndarray | None = field(repr=False)
    public: Public | None = field(repr=False)
    places: Places = field(repr=False)

    @classmethod
    def of_parts(cls, x: np.ndarray, features: tuple[str, ...], parts: JoinedRows, spec: SourceSpec) -> ArraySource:
        """Rows `x` float32 of which `parts` has the columns that `spec` names. Raises DataError, ConfigError."""
        rows = RowRoles.of(parts, spec)
        return cls(
            name=spec.set,
            title=spec.title or rows.parts.places.whole,
            attribution=spec.attribution,
            features=features,
            owner_label=spec.owner_label or spec.owner or "party",
            x=x[rows.kept],
            labels=rows.labels,
            owner=rows.owner,
            owner_names=rows.owner_names,
            patient=rows.patient,
            time=rows.time,
            public=rows.public,
            places=rows.parts.places,
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """Those that are declared, or none yet."""
        return self.labels.classes

    @property
    def y(self) -> np.ndarray:
        """See `Source`."""
        return self.labels.y

    def dataset(self, public_rows: np.ndarray) -> Dataset:
        """See `Source`."""
        y, classes = self.labels.decided(public_rows, self.places, "label")
        return Dataset(
            name=self.name,
            title=self.title,
            attribution=self.attribution,
            features=self.features,
            classes=classes,
            owner_label=self.owner_label,
            x=self.x,
            y=y,
            owner=self.owner,
            public=self.public,
            owner_names=self.owner_names,
            patient=self.patient,
            time=self.time,
        )
