"""`consilium audit teachers`: of a party's own home, or of a party of a scenario."""

from __future__ import annotations

import csv
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import numpy as np
import typer

from consilium.accounting.units import Neighbouring, Unit
from consilium.party.data import DataRules, npz, table_files
from consilium.party.data.problems import Unreadable
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.output import Format, FormatOption, QuietOption, show
from consilium.protocol.rows.columns import Wanted

if TYPE_CHECKING:
    from consilium.coordinator.config import FederationConfig
    from consilium.party.home import Home


class RowFile(Protocol):
    """`count` rows; `patients` (count,) says whose they are, or is None where the file does not."""

    count: int
    patients: list[str] | None

    def write(self, path: Path, order: Sequence[int]) -> None:
        """A new file of the same form with these rows, which may repeat."""
        ...


class _Npz:
    def __init__(self, path: Path, rules: DataRules) -> None:
        self.patients = npz.read(path, [], _LABEL, rules.patient.column).patients
        with np.load(path, allow_pickle=False) as file:
            self._arrays = {name: file[name] for name in file.files}
        self.count = len(self._arrays["y"])
        self._of_rows = {"x", "y", rules.patient.column}

    def write(self, path: Path, order: Sequence[int]) -> None:
        rows = np.array(order, dtype=np.int64)
        np.savez(path, **{name: v[rows] if name in self._of_rows else v for name, v in self._arrays.items()})


class _Csv:
    def __init__(self, path: Path, rules: DataRules) -> None:
        self._rule = rules.csv
        self.patients = table_files.read([path], [], None, rules.csv, rules.patient.column).patients
        with open(path, encoding=rules.csv.encoding, newline="") as file:
            lines = [line for line in csv.reader(file, delimiter=rules.csv.separator, strict=True) if line]
        self._header, self._rows = lines[0], lines[1:]
        self.count = len(self._rows)

    def write(self, path: Path, order: Sequence[int]) -> None:
        with open(path, "w", encoding=self._rule.encoding, newline="") as file:
            writer = csv.writer(file, delimiter=self._rule.separator)
            writer.writerows([self._header, *(self._rows[row] for row in order)])


class _Parquet:
    def __init__(self, path: Path, rules: DataRules) -> None:
        import polars as pl

        self.patients = table_files.read([path], [], None, rules.csv, rules.patient.column).patients
        self._frame = pl.read_parquet(path)
        self.count = self._frame.height

    def write(self, path: Path, order: Sequence[int]) -> None:
        self._frame[list(order)].write_parquet(path)


_LABEL = Wanted("label", "y")
_READERS = {".npz": _Npz, ".csv": _Csv, ".parquet": _Parquet}


def open_rows(path: Path, rules: DataRules) -> RowFile:
    """The file's rows.

    Raises
    ------
    DataError : it cannot be read; `consilium party check` says more.
    """
    try:
        rows = _READERS[path.suffix.lower()](path, rules)
    except (Unreadable, OSError, KeyError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {type(error).__name__}", "See `consilium party check`") from None
    if rules.patient.column is not None and rows.patients is None:
        raise DataError(f"{path} has no column {rules.patient.column!r}", "Correct [patient] in party.toml")
    return rows


MADE_UP = 1000


def audit_teachers_command(
    where: Annotated[str, typer.Argument(metavar="HOME|SCENARIO", help="A party's folder, or a scenario.")],
    federation: Annotated[
        Path | None, typer.Argument(metavar="[FEDERATION.json]", help="The coordinator's file; with a HOME.")
    ] = None,
    pool: Annotated[
        Path | None, typer.Option(help="Rows to vote on, .npz as the student's; with a HOME; else they are made up.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override one key of the SCENARIO.")
    ] = None,
    party: Annotated[str | None, typer.Option(help="Which party of the SCENARIO; else the one with most rows.")] = None,
    unit: Annotated[Unit | None, typer.Option(help="record or patient; else the federation's.")] = None,
    neighbouring: Annotated[Neighbouring | None, typer.Option(help="How it changes; else the federation's.")] = None,
    teachers: Annotated[int | None, typer.Option(help="k: teachers of the party; else the federation's.")] = None,
    changes: Annotated[int, typer.Option(help="Records or patients that are changed, one at a time.")] = 200,
    queries: Annotated[int, typer.Option(help="Most queries in a run of the game.")] = 100,
    runs: Annotated[int, typer.Option(help="Runs of each of the two databases in the game.")] = 20_000,
    seed: Annotated[int | None, typer.Option(min=0, help="Of changes, shards and noise; else a fresh one.")] = None,
    output: FormatOption = Format.text,
    quiet: QuietOption = False,
) -> None:
    """Change single records or patients, train anew, and count the votes that move: as few as is claimed?

    Then the distinguishing game is played on the change that moved most. Exit code 0: the claim holds up (no proof).
    1: more votes move than are claimed, or the lower bound on epsilon exceeds the claim. 2: usage.
    """
    from rich.console import Console

    from consilium.protocol.noise import SeededNoise
    from consilium.protocol.progress.display import progress_on, showing
    from consilium.simulations.teacher_audit.audit import AuditEffort, audit_teachers, audit_to_json, print_audit

    chosen = secrets.randbits(32) if seed is None else seed
    with (
        _subject(where, federation, pool, overrides or [], party, chosen) as (home, config, rows),
        showing(quiet) as display,
    ):
        if teachers is not None:
            config = config.model_copy(update={"teachers_per_party": teachers})
        plan = AuditEffort(
            unit=unit or config.privacy.unit,
            neighbouring=neighbouring or config.privacy.neighbouring,
            changes=changes,
            queries=queries,
            runs=runs,
            seed=chosen,
        )
        audit = audit_teachers(home, config, rows, plan, SeededNoise(chosen), progress_on(display))
    if output is Format.json:
        show(output, audit_to_json(audit, f"--seed {chosen}"), ())
    elif not quiet:
        console = Console(file=sys.stdout, highlight=False, soft_wrap=True, markup=False, width=140)
        print_audit(audit, console, f"--seed {chosen}")
    if audit.violated:
        raise typer.Exit(1)


@contextmanager
def _subject(
    where: str, federation: Path | None, pool: Path | None, overrides: list[str], party: str | None, seed: int
) -> Iterator[tuple[Home, FederationConfig, np.ndarray]]:
    """The home, the federation and the queries; those of a scenario are there while the context is open."""
    from consilium.party.home import SETTINGS

    if (Path(where) / SETTINGS).is_file():
        if overrides or party is not None:
            raise ConfigError("--set and --party belong to a scenario", f"Leave them away with {where}")
        yield _of_home(Path(where), federation, pool)
        return
    if federation is not None or pool is not None:
        raise ConfigError(f"{where} has no {SETTINGS}, so it is no party's home", "Give a home, or a scenario alone")
    with tempfile.TemporaryDirectory(prefix="consilium-audit-") as folder:
        yield subject_of_scenario(where, overrides, party, seed, Path(folder))


def _of_home(where: Path, federation: Path | None, pool: Path | None) -> tuple[Home, FederationConfig, np.ndarray]:
    from consilium.coordinator.config import FederationConfig
    from consilium.party.dry_run import made_up_queries
    from consilium.party.home import open_home
    from consilium.protocol.config_files import load
    from consilium.protocol.rows.queries import canonical_queries
    from consilium.student.asking.pool import PoolFile

    if federation is None:
        raise ConfigError("a party's home needs the federation's file", "Give it after the home: HOME FEDERATION.json")
    config = load(federation, FederationConfig)
    schema = config.rows
    if pool is None:
        queries = made_up_queries(schema, min(config.all_caps.queries, MADE_UP))
    else:
        loaded = PoolFile(pool).load(schema)
        if tuple(loaded.features) != schema.features:
            raise ConfigError(f"the features of {pool} are not the federation's", "Give the student's rows")
        queries = loaded.queries
    return open_home(where), config, canonical_queries(queries, len(schema.features))


def subject_of_scenario(
    name: str, overrides: list[str], party: str | None, seed: int, folder: Path
) -> tuple[Home, FederationConfig, np.ndarray]:
    """Home of one party of a scenario (None: the one with most rows), its federation and the student's queries.

    Raises
    ------
    ConfigError, DataError, NotEnoughParties : the scenario cannot be laid out, or has no such party.
    """
    from consilium.party.home import open_home
    from consilium.protocol.rows.queries import canonical_queries
    from consilium.simulations.scenario import divided_data, load_scenario
    from consilium.simulations.workspace import Workspace, federation_config, lay_out

    scenario = load_scenario(name, overrides, seed)
    dataset, partition = divided_data(scenario, seed)
    config = federation_config(scenario, dataset, partition, seed)
    names = list(partition.parties)
    if party is None:
        party = max(names, key=lambda party_name: len(partition.parties[party_name]))
    if party not in names:
        raise ConfigError(f"the scenario has no party {party!r}", f"They are called like {names[0]!r}")
    alone = type(partition)({party: partition.parties[party]}, partition.queries, partition.test)
    space = Workspace(folder)
    plain = scenario.model_copy(
        update={
            "federation": scenario.federation.model_copy(update={"votes": "clear"}),
            "simulation": scenario.simulation.model_copy(update={"teachers": ()}),
        }
    )
    lay_out(space, plain, dataset, alone, config, seed)
    queries = dataset.x[partition.queries[: min(config.all_caps.queries, MADE_UP)]]
    return open_home(space.home(0)), config, canonical_queries(queries, len(dataset.features))
