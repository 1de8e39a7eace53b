"""What is wrong with a table's file, and how to say what to do where options stand elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from consilium.protocol.errors import DataError


class BadTable(DataError):
    """A file that cannot be read as a table. `fault` is what is wrong with `path`, and quotes nothing of a private
    file."""

    def __init__(self, path: Path, fault: str, action: str) -> None:
        self.path, self.fault = path, fault
        between = " " if fault.split()[0] in ("is", "has", "lacks") else ": "
        super().__init__(f"{path}{between}{fault}", action)


@dataclass(frozen=True)
class Hints:
    """What to do about a file that is written in another way. `separator` holds {mark!r} or {mark}."""

    separator: str
    encoding: str
    decimal_comma: str
    no_decimal_comma: str

    def other_separator(self, mark: str) -> str:
        """The advice for a file that is split at `mark`."""
        return self.separator.format(mark=mark, option="tab" if mark == "\t" else f'"{mark}"')


def in_file(table: str) -> Hints:
    """Options that stand in a table of a TOML file.

    >>> in_file("csv").other_separator(";")
    "Set separator = ';' under [csv]"
    """
    return Hints(
        separator=f"Set separator = {{mark!r}} under [{table}]",
        encoding=f'Save it as UTF-8, or set encoding under [{table}] to "cp1252" or "latin-1"',
        decimal_comma=f"Export with a decimal point, or set decimal_comma = true in [{table}]",
        no_decimal_comma="Export without thousands separators",
    )


ON_COMMAND_LINE = Hints(
    separator="Use --separator {option}",
    encoding="Save it as UTF-8, or use --encoding cp1252",
    decimal_comma="use --decimal-comma",
    no_decimal_comma="leave --decimal-comma away",
)
