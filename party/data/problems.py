"""What is wrong with a party's data, for the party's own eyes: names of columns, counts, and what to do.

Neither a value nor a name that was read from the file is ever part of it: the first line of a file without a header is
a row. None of it travels either: the coordinator learns only `data` or `schema`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from consilium.protocol.parties.refusals import Refused, Rule


@dataclass(frozen=True)
class Problem:
    """One line: `where` (a column or the file), `what` is wrong, what to do, and the rule that the coordinator learns.

    >>> str(Problem("age (column 'AgeY')", "3 of 40 rows have no value", "Fill them"))
    "age (column 'AgeY'): 3 of 40 rows have no value. Fill them"
    """

    where: str
    what: str
    action: str = ""
    rule: Rule = Rule.DATA

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f". {self.action}" if self.action else "")


class Unreadable(Exception):
    """The file as a whole cannot be read; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.where)


@dataclass(frozen=True)
class DataReport:
    """What `party check` shows. Counts of private rows: they are not covered by the guarantee, and are not in `repr`.

    `problems`: why there are no rows to use. `doubts`: what training takes, and mostly is a mistake: values
    that it moves to the schema's range, rows of one class only. `remarks`: what may well be right, and is worth a look:
    values far from the public ones, a category that no public row has.
    `filled`: missing values by feature that became the public mean. `classes`: rows used, by class.
    """

    problems: tuple[Problem, ...] = ()
    doubts: tuple[Problem, ...] = ()
    remarks: tuple[Problem, ...] = ()
    rows: int = field(default=0, repr=False)
    used: int = field(default=0, repr=False)
    filled: dict[str, int] = field(default_factory=dict, repr=False)
    classes: dict[str, int] = field(default_factory=dict, repr=False)

    def refusal(self) -> Refused:
        """What a request that needs these rows is answered; the detail is for the party's own log."""
        rules = {problem.rule for problem in self.problems}
        rule = Rule.SCHEMA if rules == {Rule.SCHEMA} else Rule.DATA
        return Refused(rule, detail="; ".join(str(problem) for problem in self.problems))
