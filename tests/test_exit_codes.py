"""Exit codes: one table, made from the classes of the errors, and the same in every place that lists it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from consilium.accounting.errors import AccountingError, VotesError, VotesPathError
from consilium.edge import USAGE, error_classes, exit_codes, in_a_sentence
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, PathError
from tests.command_line import consilium

ROOT = Path(__file__).resolve().parents[1]


def test_every_code_has_one_meaning_and_every_meaning_one_code() -> None:
    owners = [kind for kind in error_classes() if "meaning" in vars(kind)]
    codes = [vars(kind)["exit_code"] for kind in owners]
    assert len(set(codes)) == len(codes)
    assert len(set(exit_codes().values())) == len(exit_codes())
    for kind in error_classes():
        assert kind.exit_code in exit_codes(), kind  # pyright: ignore[reportAttributeAccessIssue]
        own = {"exit_code", "meaning"} & set(vars(kind))
        assert own != {"exit_code"} or issubclass(kind, AccountingError), f"{kind} has a code without a meaning"


def test_every_code_in_the_sources_is_in_the_table() -> None:
    """Subclasses are known once their module is imported; a code of a module that nobody imports would be missed."""
    rooms = (
        "accounting",
        "protocol",
        "report",
        "data",
        "models",
        "sums",
        "node",
        "party",
        "aggregator",
        "coordinator",
        "student",
        "simulations",
    )
    set_there = re.compile(r"^    exit_code(?:: [^=]+)? = (\d+)$", re.MULTILINE)
    sources = [path.read_text() for room in rooms for path in (ROOT / room).rglob("*.py")]
    found = {int(code) for text in sources for code in set_there.findall(text)}
    assert found == set(range(1, 14))
    assert found <= set(exit_codes())


def test_the_accounting_has_the_codes_of_the_protocol() -> None:
    pairs = {AccountingError: ConfigError, VotesError: DataError, VotesPathError: PathError}
    for ours, theirs in pairs.items():
        assert ours.exit_code == theirs.exit_code, ours


def test_codes_that_scripts_rest_on() -> None:
    assert exit_codes()[0] == "done"
    assert USAGE == ConfigError.exit_code == 2
    assert ConsiliumError.exit_code == 1
    signals = {128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    assert set(exit_codes()) == {*range(14), *signals}


def as_table() -> str:
    """For docs/for-it.md, as Markdown."""
    rows = [f"| {code} | {meaning} |" for code, meaning in exit_codes().items()]
    return "\n".join(["| code | meaning |", "|---|---|", *rows]) + "\n"


def test_help_and_documents_list_them_all() -> None:
    listed = " ".join(consilium("--help").stdout.split())
    assert in_a_sentence() in listed
    assert as_table() in (ROOT / "docs" / "for-it.md").read_text()
