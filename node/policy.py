"""What a federation asks of a node, held against what its own people allow, for parties and the second aggregator.

What they allow stands in `policy.toml`, which no signed folder brings: a flat table of limits, all of them optional.
What is asked beyond a line is refused. Lines that are missing are asked for at the first start, and written after a
yes with the values that are asked; terms that ask for no more are served later without a word.
"""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from operator import gt, lt
from typing import Any

import tomli_w

from consilium.node.folder import POLICY_FILE, NodeFolder
from consilium.protocol.config_files import load
from consilium.protocol.errors import NotAccepted
from consilium.protocol.files import replace_private
from consilium.protocol.messages import Terms
from consilium.protocol.models import Frozen
from consilium.protocol.output import plain

YES = "yes"
COUNTED_BY = ("unit", "neighbouring", "delta")
"""How a node counts its epsilon, by its own lines whatever the federation counts by: never beyond a limit."""
MOST_SHOWN, WIDTH = 48, 118


def others(value: Any, than: Any) -> bool:
    """Whether names are not all among those of another value."""
    return not set(value) <= set(than)


def _in_order(order: Sequence[str], value: Any, than: Any) -> bool:
    return order.index(value) > order.index(than)


@dataclass(frozen=True)
class Limit:
    """A key of a policy. looser: whether one value allows more than another, or what is other."""

    title: str
    looser: Callable[[Any, Any], bool]


LIMITS: Mapping[str, Limit] = {
    "unit": Limit("whom the guarantee protects", partial(_in_order, ("party", "patient", "record"))),
    "neighbouring": Limit("what may happen to it", partial(_in_order, ("replace", "add_or_remove"))),
    "delta": Limit("delta", gt),
    "most_epsilon": Limit("epsilon, over all federations", gt),
    "most_queries": Limit("questions answered ever", gt),
    "least_parties": Limit("honest parties in each sum", lt),
    "allow_simulation": Limit("noise from a seed, which protects nothing", gt),
}
"""Keys that both kinds of node have; a party adds its own."""


@dataclass(frozen=True)
class Request:
    """What a federation asks of a node. model, limits: of its policy. lines: of its policy.toml. asked: by key, as JSON
    has it. about: guarantees towards whom, and facts, in words."""

    folder: NodeFolder
    federation: str
    terms: Terms
    model: type[Frozen]
    limits: Mapping[str, Limit]
    lines: Mapping[str, Any]
    asked: Mapping[str, Any]
    about: Mapping[str, str]

    @property
    def new(self) -> dict[str, Any]:
        """What is asked that its people have said nothing of."""
        return {key: value for key, value in self.asked.items() if key not in self.lines}

    def check_beyond(self) -> None:
        """Raise NotAccepted where something is asked beyond a line that is there."""
        check({**self.asked, **self.lines}, self.asked, self.limits, self.folder)


def read_lines(folder: NodeFolder, model: type[Frozen]) -> dict[str, Any]:
    """The lines of policy.toml, as JSON has them; none where there is no such file. Raises ConfigError, PathError."""
    path = folder.policy_file
    return load(path, model).model_dump(mode="json", exclude_unset=True) if path.exists() else {}


def check(lines: Mapping[str, Any], asked: Mapping[str, Any], limits: Mapping[str, Limit], folder: NodeFolder) -> None:
    """Raise NotAccepted where something is asked beyond a line, or of which there is no line.

    asked: None for what is held against the line elsewhere, as the account does with queries and epsilon.
    """
    for key, value in asked.items():
        limit = lines.get(key)
        if None not in (value, limit) and key not in COUNTED_BY and limits[key].looser(value, limit):
            raise NotAccepted(
                f"{key}: {shown(value)} is asked, {POLICY_FILE} allows {shown(limit)}",
                f"Do not take part; or change {key} in {folder.policy_file} if you agree to that much",
            )
    missing = [key for key in asked if key not in lines]
    if missing:
        raise NotAccepted(
            f"not accepted yet: {POLICY_FILE} has no line for {', '.join(missing)}",
            f"Run: consilium node start {folder.path}, which shows what is asked",
        )


def allow(request: Request, tell: Callable[[str], object]) -> bool:
    """Where lines are missing: have a person type a yes, and write them as they are asked. Whether that was so.

    Raises
    ------
    NotAccepted : something is asked beyond a line, or the answer is no yes. Nothing was written then.
    """
    request.check_beyond()
    if not request.new:
        return False
    for line in screen(request):
        tell(line)
    print(f"Type {YES} to allow this: ", end="", flush=True)
    path = request.folder.policy_file
    if sys.stdin.readline().strip() != YES:
        tell("")
        raise NotAccepted(
            f"not accepted: only the word {YES} is a yes; nothing was written",
            f"Do not take part; or run this again, or write your own limits into {path}",
        )
    now = datetime.now(UTC)
    head = f"# Allowed on {now:%Y-%m-%d %H:%M} UTC, for {request.federation!r}, terms {request.terms.digest()[:12]}"
    written = path.read_text(encoding="utf-8") if path.exists() else ""
    replace_private(path, f"{written.rstrip()}\n\n{head}\n{tomli_w.dumps(request.new)}".lstrip())
    return True


def screen(request: Request) -> list[str]:
    """What is promised and asked, on one screen."""
    federation = f"{request.folder.name}, federation {request.federation!r} ({request.terms.federation[:12]})"
    about = {request.folder.kind: federation, **request.about}
    wide = max(map(len, about))
    lines = [line for head, words in about.items() for line in _wrapped(f"{head:{wide}}  ", words)]
    defaults = {
        key: field.get_default() for key, field in request.model.model_fields.items() if not field.is_required()
    }
    rows = [["line", "in words", "asked", "default", "your line"]]
    for key, value in request.asked.items():
        limit, default, own = request.limits[key], defaults.get(key), request.lines.get(key)
        rows.append([key, limit.title, *map(shown, (value, default, own))])
        if own is None and default not in (None, ()) and limit.looser(value, default):
            rows[-1][-1] = "NOT WITHIN THE DEFAULT"
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    table = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    yes = f"A yes writes into {POLICY_FILE}, as they are asked: {', '.join(request.new)}."
    return [plain(line).replace("\n", "?") for line in (*lines, "", *table, "", *_wrapped("", yes))]


def _wrapped(head: str, words: str) -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))


def shown(value: Any) -> str:
    """As it stands in the table.

    >>> shown(None), shown(True), shown(4.04), shown(["well", "ill"]), shown(float("inf"))
    ('-', 'yes', '4.04', 'well, ill', 'no limit')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "no limit" if math.isinf(value) else f"{value:g}"
    if isinstance(value, list | tuple):
        text = ", ".join(map(str, value))
        return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 12].rpartition(', ')[0]}, ... ({len(value)})"
    return str(value)
