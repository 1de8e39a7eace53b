"""Commands of the student node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consilium.protocol.output import Format, FormatOption, QuietOption, show

if TYPE_CHECKING:
    from consilium.data.files import CsvRule

MissingOption = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="Of a table: means a missing value, as an empty cell does.")
]
SeparatorOption = Annotated[str, typer.Option(help="Between the fields of a CSV file: , ; | or tab.")]
CommaOption = Annotated[bool, typer.Option("--decimal-comma", help="Numbers are written 1,5.")]
EncodingOption = Annotated[str, typer.Option(help="Of a CSV file: utf-8, latin-1 or cp1252.")]


app = typer.Typer(no_args_is_help=True, help="The student node: ask for labels, train, evaluate.")


@app.command()
def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The student's folder.")],
    out: Annotated[Path, typer.Option(help="New folder for labels and model.")],
    pool: Annotated[
        Path | None,
        typer.Option(
            "--public",
            help=".npz with features, queries and optionally test_x, test_y; or .csv, .parquet: raw rows; else"
            " the rows that the federation is fixed to.",
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file with the student's settings.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    resume: Annotated[
        bool, typer.Option(help="Go on in OUT, where a student with the same settings and seed stopped.")
    ] = False,
    wait: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the coordinator to be reachable.")] = 60,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds for which questions that could not be answered are asked again.")
    ] = 600,
    test: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV or Parquet: test rows, all with a class in the column --label."),
    ] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="Of --test: its classes.")] = None,
    public_label: Annotated[
        str | None,
        typer.Option(
            "--public-label",
            metavar="COLUMN",
            help="Of a table: classes that everybody knows, of rows that are asked all the same; empty where none is"
            " known. The student is brought to them; it costs no epsilon.",
        ),
    ] = None,
    missing: MissingOption = None,
    separator: SeparatorOption = ",",
    decimal_comma: CommaOption = False,
    encoding: EncodingOption = "utf-8",
    output: FormatOption = Format.text,
    quiet: QuietOption = False,
) -> None:
    """Ask the federation's coordinator for labels, over mutual TLS, train a student on them, and save it."""
    from consilium.node.folder import PUBLIC_FILE, open_folder
    from consilium.protocol.config_files import load
    from consilium.protocol.errors import ConfigError
    from consilium.protocol.files import writing
    from consilium.protocol.output import tell_warnings
    from consilium.report.progress import showing
    from consilium.report.warnings import MOST_EPSILON
    from consilium.student.card import labels_sentence
    from consilium.student.config import StudentSpec
    from consilium.student.deployed import in_words, open_channel
    from consilium.student.pool import PoolFile
    from consilium.student.run import run_student

    node = open_folder(folder, "student")
    fixed = node.federation / PUBLIC_FILE
    if pool is None and not fixed.exists():
        raise ConfigError("there are no rows to ask about: the federation is fixed to none", "Give --public")
    csv = _csv_rule("student", separator, decimal_comma, encoding)
    file = PoolFile(pool or fixed, csv, label, test, tuple(missing or ()), public_label)
    spec = StudentSpec() if config is None else load(config, StudentSpec)
    file.check()
    _check_out(out, resume)
    again = "Make room and run it again with --resume: what was answered is in the ledger and costs nothing"
    with writing(out, again), showing(quiet) as display, open_channel(node, wait, patience) as connection:
        connection.tell = display.say
        terms = connection.describe()
        rows = file.load(terms.schema, _note)
        display.say(in_words(terms))
        if terms.epsilon > MOST_EPSILON:
            display.say(f"warning: that is above {MOST_EPSILON:g}, and protects little")
        card = run_student(connection, rows, spec, out, seed, display.update, display.say)
    summary = {"asked": card["asked"], "answered": card["answered"], "student": card["metrics"], "out": str(out)}
    summary |= {name: card[name] for name in ("public_labels", "warnings") if name in card}
    lines = []
    if not quiet:
        tell_warnings(card["warnings"], output)
        figures = {name: (card["metrics"] or {}).get(name) for name in ("accuracy", "auc")}
        quality = "".join(f"{name} {value:.3f}; " for name, value in figures.items() if value is not None)
        lines.append(f"asked {card['asked']}, answered {card['answered']}; {quality}student: {out}")
        lines.append(labels_sentence(card.get("public_labels")))
    show(output, summary, filter(None, lines))


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A student's folder, or that of a run.")],
    rows: Annotated[Path, typer.Argument(metavar="ROWS", help="CSV or Parquet: rows by column name, in raw units.")],
    out: Annotated[Path | None, typer.Option(help="New file for the answers; default: to stdout.")] = None,
    output: Annotated[
        Format, typer.Option("--format", help="Of the answers; text: CSV, json: one object, errors too.")
    ] = Format.text,
    separator: SeparatorOption = ",",
    decimal_comma: CommaOption = False,
    encoding: EncodingOption = "utf-8",
    missing: MissingOption = None,
    judge_unknown: Annotated[
        bool,
        typer.Option("--judge-unknown", help="Judge rows with a category that the student does not know, as if none."),
    ] = False,
) -> None:
    """Class and probabilities of each row, by a published student. Loading a student runs no code of its maker."""
    from consilium.models.published.model import predict_file

    rule = _csv_rule("predict", separator, decimal_comma, encoding)
    text = predict_file(model, rows, rule, output.value, out, _note, tuple(missing or ()), judge_unknown)
    if out is None:
        print(text, end="")
    else:
        show(output, {"answers": str(out)}, ())


def _note(remark: str) -> None:
    import sys

    print(f"note: {remark}", file=sys.stderr)


def _csv_rule(command: str, separator: str, decimal_comma: bool, encoding: str) -> CsvRule:
    from consilium.data.files import CsvRule
    from consilium.protocol.config_files import validate

    mark = "\t" if separator in ("tab", "\\t") else separator
    return validate({"separator": mark, "decimal_comma": decimal_comma, "encoding": encoding}, CsvRule, command)


def _check_out(out: Path, resume: bool) -> None:
    from consilium.protocol.errors import ConfigError, OutputExists

    if out.exists() and not resume:
        raise OutputExists(
            f"output folder {out} exists already",
            "Choose another with --out, or go on with the student that stopped there: --resume",
        )
    if resume and (out / "student" / "student.json").exists():
        raise ConfigError(f"the student of {out} is finished: nothing is left to resume", "Choose another --out")
    if resume and not out.is_dir():
        raise ConfigError(f"there is no folder {out}: nothing to resume", "Leave --resume out, or correct --out")
