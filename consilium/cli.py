"""The `consilium` command: brings the packages' sub-commands together. Errors and exit codes: `consilium.edge`."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated, ClassVar

import typer
from typer.core import TyperGroup

import consilium.accounting.cli
import consilium.coordinator.cli
import consilium.coordinator.provision.cli
import consilium.nodes
import consilium.party.cli
import consilium.simulations.cli
import consilium.simulations.study.command
import consilium.student.cli
from consilium.edge import in_a_sentence, run
from consilium.report.disclosure import IN_A_SENTENCE
from consilium.simulations.cli import SIMULATE


class DefaultGroup(TyperGroup):
    """A group with a command whose name may be left out: whatever is no command's name is its argument.

    What follows `--`, and an option other than `--help`, is the default command's too."""

    default: ClassVar[str]

    def parse_args(self, ctx, args: list[str]) -> list[str]:
        """Put the command's name in where it was left out."""
        if args and args[0] != "--help" and args[0] not in self.commands:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


def defaulting(name: str) -> type[DefaultGroup]:
    """Of the command of this name: `consilium audit PATH` is `consilium audit run PATH`, and a folder called like a
    command is `./mechanism`."""
    return type("DefaultGroup", (DefaultGroup,), {"default": name})


DEPLOY, CHECK, USE = "On separate machines", "Check", "Use a published student"
"""Above groups of commands, in the list of all commands."""
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they would print local variables, and those are votes
    pretty_exceptions_show_locals=False,
    help=IN_A_SENTENCE,
    epilog=in_a_sentence(),
)


@app.callback(invoke_without_command=True, help=IN_A_SENTENCE)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    if version:
        print(f"consilium {consilium.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise typer.BadParameter("give a command", context)


consilium.simulations.cli.register(app)
app.add_typer(consilium.simulations.study.command.app, name="study", cls=defaulting("run"), rich_help_panel=SIMULATE)
app.add_typer(consilium.coordinator.provision.cli.app, name="provision", cls=defaulting("make"), rich_help_panel=DEPLOY)
app.add_typer(consilium.nodes.app, name="node", rich_help_panel=DEPLOY)
app.command(rich_help_panel=DEPLOY)(consilium.nodes.status)
app.command(rich_help_panel=DEPLOY)(consilium.nodes.doctor)
app.add_typer(consilium.party.cli.app, name="party", rich_help_panel=DEPLOY)
app.add_typer(consilium.student.cli.app, name="student", rich_help_panel=DEPLOY)
app.command(rich_help_panel=USE)(consilium.student.cli.predict)
consilium.coordinator.cli.audit_app.command("run")(consilium.simulations.cli.audit_run)
app.add_typer(
    consilium.coordinator.cli.audit_app,
    name="audit",
    cls=defaulting("run"),
    rich_help_panel=CHECK,
    help="Check a run against its ledger (`audit PATH`), or a mechanism against its epsilon (`audit mechanism`).",
)
app.add_typer(consilium.accounting.cli.app, name="accounting", rich_help_panel=CHECK)


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Ends the process with the command's exit code."""
    # one thread each: many small models in parallel are faster so, and results do not depend on the machine
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    gc.set_threshold(100_000)  # of what commands make, little is a cycle: collections would take a tenth of their time
    sys.exit(run(app, sys.argv[1:] if arguments is None else arguments))


if __name__ == "__main__":
    main()
