"""`consilium audit teachers`: of a party's home in a federation, or of a party of a scenario."""

from __future__ import annotations

import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consilium.accounting.units import Neighbouring, Unit
from consilium.protocol.errors import ConfigError
from consilium.protocol.output import Format, FormatOption, QuietOption, show

if TYPE_CHECKING:
    import numpy as np

    from consilium.coordinator.config import FederationConfig
    from consilium.party.home import Home


def audit_teachers_command(
    where: Annotated[str, typer.Argument(metavar="HOME|SCENARIO", help="A party's folder, or a scenario.")],
    federation: Annotated[
        Path | None, typer.Argument(metavar="[FEDERATION.json]", help="The coordinator's file; with a HOME.")
    ] = None,
    pool: Annotated[
        Path | None,
        typer.Option(
            "--public", "--pool", help="Rows to vote on, .npz as the student's; with a HOME; else they are made up."
        ),
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

    from consilium.node.progress import progress_on, showing
    from consilium.protocol.noise import SeededNoise
    from consilium.simulations.audit_teachers import AuditEffort, audit_teachers, audit_to_json, print_audit

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
    from consilium.simulations.audit_teachers import subject_of_scenario

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
    from consilium.protocol.queries import canonical_queries
    from consilium.simulations.audit_teachers import MADE_UP
    from consilium.student.pool import PoolFile

    if federation is None:
        raise ConfigError("a party's home needs the federation's file", "Give it after the home: HOME FEDERATION.json")
    config = load(federation, FederationConfig)
    schema = config.rows
    if pool is None:
        queries = made_up_queries(schema, min(config.query_budget.queries, MADE_UP))
    else:
        loaded = PoolFile(pool).load(schema)
        if tuple(loaded.features) != schema.features:
            raise ConfigError(f"the features of {pool} are not the federation's", "Give the student's rows")
        queries = loaded.queries
    return open_home(where), config, canonical_queries(queries, len(schema.features))
