"""What the second aggregator can refuse by, read from its own code: its rules, and errors of the protocol."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import consilium.aggregator
import consilium.sums
from consilium.node import limits
from consilium.node.answering import AnsweringNode, check_pinned, check_protocol, refusal_for
from consilium.protocol.refusals import Rule
from consilium.sums import errors
from consilium.sums.errors import SecAggError

ROOM = Path(consilium.aggregator.__path__[0])
OF_OTHERS = {"leader.py"}
"""Of `sums.verified`: what the first aggregator runs."""
OWN = sorted(ROOM.rglob("*.py"))
SUMS = Path(consilium.sums.__path__[0])
SHARED = [SUMS / "terms.py", SUMS / "roster.py"]
PROTOCOL = [*SHARED, *(path for path in sorted(SUMS.glob("verified/*.py")) if path.name not in OF_OTHERS)]


def errors_raised() -> set[type[SecAggError]]:
    """Errors that travel as a rule, by where they are raised."""
    text = "".join(path.read_text(encoding="utf-8") for path in (*OWN, *PROTOCOL))
    raised = set(re.findall(r"\b(?:raise|return|else) (\w+)\(", text))
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SecAggError)]
    return {kind for kind in kinds if kind.__name__ in raised and kind.TOLD_AS is not Rule.INTERNAL}


def rules_given() -> set[Rule]:
    """Rules of all its refusals, those at its edge too."""
    texts = [path.read_text(encoding="utf-8") for path in OWN]
    texts += [inspect.getsource(given) for given in (limits, refusal_for, AnsweringNode, check_pinned, check_protocol)]
    named = {Rule[name] for text in texts for name in re.findall(r"\bRule\.([A-Z_]+)\b", text)}
    return named | {error.TOLD_AS for error in errors_raised()}
