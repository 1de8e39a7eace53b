"""Commands of a party: check its rows without sending anything, and delete teachers."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from consilium.protocol.output import Format, FormatOption, show, tell_warnings

app = typer.Typer(
    no_args_is_help=True, help="A data holder: its data, and its teachers.", pretty_exceptions_show_locals=False
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The party's folder.")]


@app.command("rows")
def rows_command(folder: Folder, output: FormatOption = Format.text) -> None:
    """Hold the rows against the federation: every problem of every column at once. Nothing is sent, spent or kept."""
    from consilium.party.deployed import check
    from consilium.party.home import open_home

    home = open_home(folder)
    found, name = check(home), home.federation.config.name
    if found.error is not None:
        return found.show(output)
    warnings = home.warnings()
    values = {**found.values, "federation": name, "warnings": warnings}
    show(output, values, [*found.lines, f"The data fit federation {name!r}."])
    tell_warnings(warnings, output)


@app.command("forget")
def forget_command(folder: Folder, output: FormatOption = Format.text) -> None:
    """Delete all teachers. What the party has given stays written down: a coordinator that comes again has it train."""
    from consilium.party.home import open_home

    with closing(open_home(folder).remembered()) as store:
        count = store.forget_teachers()
    show(output, {"deleted": count}, [f"teachers of {count} federation{'' if count == 1 else 's'} deleted"])
