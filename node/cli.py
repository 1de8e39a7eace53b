"""`consilium kit`: kits on their way to their nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consilium.protocol.files import writing
from consilium.protocol.output import Format, FormatOption, show

app = typer.Typer(no_args_is_help=True, help="Kits on their way: sealed with a password, opened and checked.")


@app.command()
def seal(
    archives: Annotated[list[Path], typer.Argument(metavar="KIT.tar.gz...", help="Kits as `provision` packed them.")],
    passwords: Annotated[
        Path, typer.Option(help="File that the new passwords are added to, for you alone: each is told by telephone.")
    ],
    output: FormatOption = Format.text,
) -> None:
    """Seal kits with a password each, so that they can be sent over a way that others read."""
    from consilium.node.sending import seal_all

    with writing(passwords):
        sealed = seal_all(archives, passwords)
    show(
        output,
        {"sealed": [str(path) for path in sealed], "passwords": str(passwords)},
        [*(f"sealed     {path}" for path in sealed), f"passwords  {passwords}: tell each by telephone, never with it"],
    )


@app.command("open")
def open_kit_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What the operator sent: a kit or an update.")],
    into: Annotated[
        Path, typer.Option(help="The kit that an update is for; else the folder in which the kit's own is made.")
    ],
    password_file: Annotated[
        Path | None, typer.Option(help="File with the password of a sealed kit; else it is asked for.")
    ] = None,
    output: FormatOption = Format.text,
) -> None:
    """Unpack a kit, or an update over one, after every file was held against the authority's signature."""
    from consilium.node.sending import open_file

    def ask() -> str:
        return typer.prompt("password", hide_input=True, err=True)

    with writing(into):
        opened = open_file(file, into, ask if password_file is None else password_file)
    told = {
        "kit": str(opened.folder),
        "node": opened.node,
        "version": opened.version,
        "update": opened.update,
        "files": list(opened.files),
        "authority": opened.authority,
    }
    lines = [
        f"{'updated' if opened.update else 'kit':10} {opened.folder}: {opened.node}, version {opened.version}",
        f"files      {', '.join(opened.files)}",
        f"authority  {opened.authority}",
    ]
    if not opened.update:
        lines.append("Have the operator read the authority's fingerprint out over the telephone.")
    show(output, told, lines)
