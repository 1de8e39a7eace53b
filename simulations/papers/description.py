"""What a paper measured, row by row, the students, and the files that it takes, in TOML; three papers come with the
package.

A row says which labels a student learns from, what released them, and which rows judge; `measure` does the rest."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from consilium.coordinator.mechanisms import AnyMechanism
from consilium.models.base import Model, Trainer, constant
from consilium.models.images.network import ImageTrainer, supervised
from consilium.models.images.pixels import INVARIANCES
from consilium.models.keys import ImageStudent
from consilium.protocol.config_files import read_table, validate
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.label_source import Progress
from consilium.protocol.models import Frozen
from consilium.simulations.datasets.base import read_arrays
from consilium.simulations.scenario import parsed, put


class CnnStudent(ImageStudent):
    """The labels alone, on distorted copies (LeCun et al. 1998, Simard et al. 2003)."""

    name: Literal["cnn"] = "cnn"

    def trainer(self, unlabelled: np.ndarray, progress: Progress) -> Trainer:
        change = INVARIANCES[self.augment].strong
        return ImageTrainer(lambda net, material: supervised(net, material, change), self, unlabelled, progress)


class VatStudent(ImageStudent):
    """The labels, and predictions that do not change in the worst near direction, and are sure (Miyato et al. 2018)."""

    name: Literal["vat"] = "vat"
    radius: float = Field(default=0.07, gt=0, description="root mean square of the change of pixels from 0 to 1")

    def trainer(self, unlabelled: np.ndarray, progress: Progress) -> Trainer:
        from consilium.simulations.papers.semi_supervised import Vat  # torch takes two seconds to import

        change = INVARIANCES[self.augment]
        return ImageTrainer(
            lambda net, material: Vat(net, material, change, self.radius).step, self, unlabelled, progress
        )


class FeatureMatchingStudent(Frozen):
    """The student of PATE-G as published: dense networks, a generator that matches features (Salimans et al. 2016)."""

    name: Literal["feature_matching"] = "feature_matching"
    epochs: int = Field(default=300, ge=1, le=100_000, description="times that every public row is seen, 100 at a time")

    def trainer(self, unlabelled: np.ndarray, progress: Progress) -> Trainer:
        from consilium.simulations.papers.semi_supervised import ImprovedGanTrainer

        return ImprovedGanTrainer(self.epochs, unlabelled, progress)


PaperStudent = Annotated[CnnStudent | VatStudent | FeatureMatchingStudent, Field(discriminator="name")]


def train(
    x: np.ndarray, y: np.ndarray, unlabelled: np.ndarray, classes: int, spec: PaperStudent, seed: int,
    progress: Progress,
) -> Model:  # fmt: skip
    """On labels int64 (n,) of images `x` float (n, pixels) and on `unlabelled` ones; labels of fewer than two classes
    give a constant model."""
    if len(np.unique(y)) < 2:
        return constant(y, classes)
    return spec.trainer(unlabelled, progress).fit(x, y, classes, seed)


DataSet = Literal["mnist", "svhn"]
SCRIPT_POOL = 8000
"""Public images of the script with which the student of 2017 was trained; its draw can be repeated with no other."""


class File(Frozen):
    """A file that rows need, by its place in the folder of data sets. sha256: of its content: of a .gz file unpacked,
    of an .npz file `name, shape, int64 numbers` of each array in the order of their names. Empty where no copy was at
    hand. source: where to get it, and how it is made of that."""

    name: str
    sha256: str = Field(default="", pattern="^([0-9a-f]{64})?$")
    source: str
    needed_for: tuple[Literal["mnist", "svhn", "votes of mnist", "votes of svhn", "labels of mnist"], ...]


class Printed(Frozen):
    """Figures as the paper prints them; empty where it prints none. Shares are in percent."""

    epsilon: str = ""
    answers: str = ""
    labels: str = ""
    student: str = ""
    teacher: str = ""
    plurality: str = ""
    gap: str = ""

    @property
    def figures(self) -> dict[str, str]:
        return {name: value for name, value in self.model_dump().items() if value}


class PaperRow(Frozen):
    """One row of a paper's table.

    name: short, for `--set rows`. title: for people. teachers: 0 for the votes that were published, else so many
    networks that are trained here, each on at most `shard` images (0: equal parts of all). labels: `drawn` by the
    mechanism with seeded noise, `published` ones (the mechanism says what they cost), the `plurality`, or the `truth`.
    queries: 0 for all public rows. choice: of the queries: the `first`, as many of each class (`balanced`), or the draw
    of the `script` of 2017. pool, judges: public rows from the front of the test set and rows that judge from its end,
    after a shuffle by the seed where `shuffled`. more: training images that the student sees besides, without labels.
    extra: runs only where it is named. differs: what is not the paper's."""

    name: str
    title: str
    paper: Printed = Printed()
    data: DataSet = "mnist"
    teachers: int = Field(default=0, ge=0)
    shard: int = Field(default=0, ge=0)
    labels: Literal["drawn", "published", "plurality", "truth"] = "drawn"
    mechanism: AnyMechanism | None = None
    queries: int = Field(default=0, ge=0)
    choice: Literal["first", "balanced", "script"] = "first"
    pool: int = Field(default=9000, ge=1)
    judges: int = Field(default=1000, ge=1)
    shuffled: bool = False
    more: int = Field(default=0, ge=0)
    student: PaperStudent | None = None
    delta: float = Field(default=1e-5, gt=0, lt=1)
    extra: bool = False
    differs: str = ""

    @model_validator(mode="after")
    def _fits(self) -> PaperRow:
        if self.labels in ("drawn", "published") and self.mechanism is None:
            raise ValueError(f"{self.name}: labels that are {self.labels} need a mechanism")
        if self.choice == "script" and (self.shuffled or self.pool != SCRIPT_POOL):
            raise ValueError(f"{self.name}: the script's draw is of the first {SCRIPT_POOL} rows")
        return self

    @property
    def digest(self) -> str:
        words = {"title", "paper", "extra", "differs"}
        return hashlib.sha256(self.model_dump_json(exclude=words).encode()).hexdigest()[:12]

    @property
    def needs(self) -> set[str]:
        published = {f"votes of {self.data}"} if self.teachers == 0 and self.labels != "truth" else set()
        labels = {f"labels of {self.data}"} if self.labels == "published" else set()
        return {self.data, *published, *labels}


class NotMeasured(Frozen):
    """What no row can measure, and why."""

    title: str
    paper: Printed
    why: str


class Paper(Frozen):
    """title, link: of the paper. seeds: of division, teachers, noise and student. seconds: that all rows that are not
    extra take one processor."""

    title: str
    link: str
    seeds: tuple[int, ...]
    seconds: int
    files: tuple[File, ...]
    rows: tuple[PaperRow, ...]
    absent: tuple[NotMeasured, ...] = ()

    def chosen(self, names: Sequence[str]) -> tuple[PaperRow, ...]:
        """Rows of these names, in the paper's order; without any, all that are not extra. Raises ConfigError: there is
        no row of a name."""
        known = [row.name for row in self.rows]
        if unknown := sorted(set(names) - set(known)):
            raise ConfigError(f"rows: there is no {unknown[0]!r}", f"Rows are {', '.join(known)}")
        return tuple(row for row in self.rows if (row.name in names if names else not row.extra))

    def check_files(self, row: PaperRow, folder: Path) -> None:
        """Compare the files of a row with their checksums. Raises DataError: one is not there, or has another content:
        which, its checksum, and where to get it."""
        for file in self.files:
            path = folder / file.name
            if not row.needs & set(file.needed_for):
                continue
            if not path.is_file():
                raise DataError(
                    f"{path} is not there (SHA-256 of its content: {file.sha256 or 'unknown'})",
                    f"Get it from {file.source}, or name another folder with --set data.path=FOLDER",
                )
            if file.sha256 and (digest := content_digest(path)) != file.sha256:
                what = f"{path} has another content: SHA-256 {digest} in place of {file.sha256}"
                raise DataError(what, f"Get it anew from {file.source}")


def load_paper(path: Path) -> Paper:
    """Raises PathError, ConfigError."""
    return validate(read_table(path), Paper, str(path))


def content_digest(path: Path) -> str:
    """SHA-256 of what a file holds, see `File`. Raises DataError where it cannot be read."""
    try:
        if path.suffix == ".npz":
            digest = hashlib.sha256()
            for name, array in sorted(read_arrays(path, "its source").items()):
                digest.update(f"{name} {array.shape} ".encode())
                digest.update(np.ascontiguousarray(array.astype("<i8")).tobytes())
            return digest.hexdigest()
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # pyright: ignore[reportArgumentType]
    except (OSError, EOFError) as error:
        raise DataError(f"cannot read {path}: {error}", "Get it anew") from None


class PaperData(Frozen):
    """path: the folder of data sets."""

    path: str = ""


class Choice(Frozen):
    """What `--set` may say of a run. fast: a few images, teachers and steps, to see that all of it works. workers: most
    processes at once, 0 for one on each processor."""

    rows: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    fast: bool = False
    workers: int = Field(default=0, ge=0)
    data: PaperData = PaperData()


def choice_of(overrides: Sequence[str]) -> Choice:
    """The options of a run, of `key=value`. Raises ConfigError."""
    table: dict[str, Any] = {}
    for override in overrides:
        put(table, *parsed(override))
    return validate(table, Choice, "--set")
