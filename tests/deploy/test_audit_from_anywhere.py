"""`consilium audit` where one stands: party, second aggregator and student each hold the ledger to what they know.

The control of each lie: whoever does not know better finds nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from consilium.coordinator.deploy.runs import write_statement
from consilium.node.kit import open_kit
from consilium.protocol.files import replace_text
from consilium.protocol.identity import Identity
from consilium.protocol.ledger_statement import ChargedBatch, LedgerStatement
from tests.command_line import Done, consilium
from tests.coordinator.verify.runs import kit_run
from tests.deploy.kits import SECOND, STUDENT

NOISY = {
    "mechanism": {"name": "gnmax", "sigma": 4.0},
    "minimum_parties": 3,
    "query_budget": {"queries": 40, "answers": 40},
}
Batches = list[ChargedBatch]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of verified votes of four batches of five queries."""
    return kit_run(tmp_path_factory.mktemp("verified"), collection="verified", **NOISY)


@pytest.fixture
def run(ended: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ended, tmp_path / "run"))


def statement_of(run: Path) -> LedgerStatement:
    return write_statement(open_kit(run / "kits" / "coordinator"), run / "statement.json")


def tell(run: Path, statement: LedgerStatement) -> None:
    """The coordinator signs this, whatever it is."""
    signed = statement.signed(Identity.load(run / "kits" / "coordinator" / "identity.pem"))
    replace_text(run / "statement.json", signed.model_dump_json())


def audit(run: Path, node: str) -> Done:
    more = ("--student", run / "student") if node.startswith("student") else ()
    return consilium("audit", run / "kits" / node, "--statement", run / "statement.json", *more)


NODES = ("party-ward-a", f"aggregator-{SECOND}", f"student-{STUDENT}")


def found(run: Path) -> list[str]:
    """Nodes at which the statement does not hold."""
    results = {node: audit(run, node) for node in NODES}
    assert all(done.exit_code in (0, 1) for done in results.values()), [done.stderr for done in results.values()]
    return [node for node, done in results.items() if done.exit_code]


def test_an_honest_ledger_holds_everywhere(run: Path) -> None:
    statement_of(run)
    assert found(run) == []
    assert "20 queries that this party answered, each charged" in audit(run, NODES[0]).stdout
    assert "20 queries that this aggregator gave its half on, each charged" in audit(run, NODES[1]).stdout
    assert "20 outcomes that this student has, each charged" in audit(run, NODES[2]).stdout
    for node in NODES:
        assert "signed by the coordinator" in audit(run, node).stdout


def hidden(honest: LedgerStatement) -> LedgerStatement:
    """The last batch was released, and is said to be a question that failed."""
    *batches, last = honest.batches
    return honest.model_copy(update={"batches": batches, "unanswered": sorted(last.queries)})


def lost(honest: LedgerStatement) -> LedgerStatement:
    """The first batch never was, and the queries of the others are charged twice as cheaply."""
    return honest.model_copy(update={"batches": honest.batches[1:]})


def test_only_the_student_sees_that_what_is_said_to_have_failed_was_released(run: Path) -> None:
    """Parties and second aggregator know that they were asked, not what came of it: here they were told no later
    position."""
    tell(run, hidden(statement_of(run)))
    assert f"student-{STUDENT}" in found(run)
    done = audit(run, NODES[2])
    assert "5 of 20 outcomes that this student has were never charged" in done.stdout
    assert "queries" not in [line.split()[1] for line in audit(run, NODES[0]).stdout.splitlines() if "wrong" in line]


@pytest.mark.parametrize("lie", [lost])
def test_a_batch_that_is_gone_is_seen_by_all(run: Path, lie: Callable[[LedgerStatement], LedgerStatement]) -> None:
    tell(run, lie(statement_of(run)))
    assert found(run) == list(NODES)


def test_somebody_elses_statement_is_nobodys(run: Path) -> None:
    replace_text(run / "statement.json", statement_of(run).signed(Identity.generate()).model_dump_json())
    assert found(run) == list(NODES)
    for node in NODES:
        assert "the coordinator did not sign it" in audit(run, node).stdout


def test_what_a_node_is_asked_in_vain_is_said(run: Path) -> None:
    statement_of(run)
    done = consilium("audit", run / "kits" / NODES[2], "--statement", run / "statement.json")
    assert (done.exit_code, "--student" in done.stderr) == (2, True)
    done = consilium("audit", run / "kits" / "coordinator", "--statement", run / "statement.json")
    assert done.exit_code == 2
    for node in NODES:
        done = consilium("audit", run / "kits" / node)
        assert (done.exit_code, f"consilium audit {run / 'kits' / node} --statement" in done.stderr) == (2, True)
