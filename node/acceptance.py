"""What an operator asks, held against what a node's own people allow: for parties and the second aggregator alike.

A kit carries no limits. What a node allows stands in `policy.toml` beside its settings, mode 0600, which no kit and no
update ever brings:

[limits]      lines that its people wrote: nothing beyond them is accepted
[policy]      what the node enforces; `accept` writes exactly what is asked, after a yes for each looser line
[accepted]    when, and for which terms: others are compared anew, and what asks for no more is accepted with them
"""

from __future__ import annotations

import math
import os
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tomli_w
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from consilium.node.kit import KIT_FILE, POLICY_FILE, EnrolledKind, Kit
from consilium.protocol.config_files import load, read_table, validate
from consilium.protocol.digests import Hash
from consilium.protocol.errors import ConfigError, NotAccepted
from consilium.protocol.files import replace_private
from consilium.protocol.messages import CollectionMode, Terms
from consilium.protocol.models import Frozen
from consilium.protocol.output import Format, show
from consilium.protocol.schema import Schema
from consilium.report.disclosure import (
    ALWAYS,
    Bound,
    Disclosure,
    ReleaseKind,
    epsilon_text,
    in_plain_words,
    out_of,
    surest_guess,
)

P = TypeVar("P", bound=Frozen)
YES, COLUMNS, NEW_PATIENTS = "yes", "columns", "new_patients"
COUNTED_BY = ("unit", "neighbouring", "delta")
"""How a node counts its epsilon: where its own limit is the stricter one, it counts by that."""
MOST_SHOWN, WIDTH = 48, 118
TITLES = ["line", "in words", "asked", "default", "accepted before", ""]
HEAD = """# What {name} allows. `consilium node accept` writes [policy] and [accepted]; no kit and no update does.
# [limits] is yours to write: lines of [policy] beyond which nothing is accepted.
"""


def more(value: Any, than: Any) -> bool:
    """Of a most."""
    return value > than


def fewer(value: Any, than: Any) -> bool:
    """Of a least."""
    return value < than


def _also(value: Any, than: Any) -> bool:
    return bool(value) and not than


def others(value: Any, than: Any) -> bool:
    """Of names."""
    return not set(value) <= set(than)


def _in_order(order: Sequence[str], value: Any, than: Any) -> bool:
    return order.index(value) > order.index(than)


@dataclass(frozen=True)
class Limit:
    """A key of a policy. looser: whether one value allows more than another. risk: what could be learnt, and by whom,
    under a looser one; by the value, where it differs. `{asked}`, `{delta}` and `{guess}` are filled in."""

    title: str
    looser: Callable[[Any, Any], bool]
    risk: str | Mapping[str, str]


LIMITS: Mapping[str, Limit] = {
    "unit": Limit(
        "whom the guarantee protects",
        partial(_in_order, ("party", "patient", "record")),
        {
            "record": "Only one row is hidden: whoever has the student may learn what several rows of one patient have"
            " in common, or all of this hospital's.",
            "patient": "Only the rows of one patient are hidden: whoever has the student may learn what this hospital's"
            " patients have in common.",
        },
    ),
    "neighbouring": Limit(
        "what may happen to it",
        partial(_in_order, ("replace", "add_or_remove")),
        "Hidden is whether a unit is there, and not which of two it is: between two, whoever has the student may learn"
        " up to twice the epsilon.",
    ),
    "delta": Limit(
        "delta",
        more,
        "With a chance of {asked} the guarantee may not hold, and whoever has the student may learn more of a person.",
    ),
    "most_epsilon": Limit(
        "epsilon, over all federations",
        more,
        "Whoever sees what leaves, knows all else, and guesses between two versions of one {unit}, may be right"
        " {guess}; a coin is in 50 in 100.",
    ),
    "most_queries": Limit(
        "questions answered ever",
        more,
        "Whoever has the student learns from the votes on {asked} questions: each tells more of the same rows.",
    ),
    "least_parties": Limit(
        "honest parties in each sum",
        fewer,
        "A sum may be of {asked} honest parties only: the fewer they are, the more the coordinator learns of each.",
    ),
    "allow_simulation": Limit(
        "noise from a seed",
        _also,
        "Whoever knows the seed takes the noise off again, and learns the exact votes: nothing is protected.",
    ),
}
"""Keys that both kinds of node have; a party adds its own."""


class Acceptance(Frozen):
    """The table `[accepted]`. at: when. terms: digest of what was asked. columns: that a party was to read.
    new_patients: parties whose patients this one's are not, as its people said."""

    at: str
    federation: str
    terms: Hash
    columns: tuple[str, ...] = ()
    new_patients: tuple[str, ...] = ()


class PolicyFile(Frozen, Generic[P]):
    """The file `policy.toml`; see the head of this module."""

    limits: dict[str, Any] = Field(default_factory=dict)
    policy: P | None = None
    accepted: Acceptance | None = None


class _Part(Frozen):
    model_config = ConfigDict(extra="ignore")


class FederationPrivacy(_Part):
    """Of the federation's own guarantee."""

    unit: str
    delta: float
    neighbouring: str = "replace"


class FederationPart(_Part):
    """What a page of acceptance says from a kit's `federation.json`."""

    name: str
    rows: Schema
    privacy: FederationPrivacy

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that parties are asked to read."""
        return tuple(column.column for column in self.rows.columns) or self.rows.features

    @property
    def may_miss(self) -> tuple[str, ...]:
        """Of these, those for which that a value is missing is read as a value."""
        return tuple(column.column for column in self.rows.columns if column.missing)


def load_federation_part(folder: Path) -> FederationPart:
    """Raises ConfigError."""
    return load(folder / "federation.json", FederationPart)


def is_kit(folder: Path) -> bool:
    """Whether the folder came from an operator, so that its policy is not the one in its settings."""
    return (folder / KIT_FILE).is_file()


def read_settings(path: Path, model: type[P]) -> P:
    """A node's settings; those of a kit without a table [policy], which counts for nothing where an operator wrote it.

    Raises
    ------
    ConfigError : they cannot be read; or are of no kit, and say no limits.
    """
    table = read_table(path)
    if is_kit(path.parent):
        table.pop("policy", None)
    elif "policy" not in table:
        raise ConfigError(f"{path}: policy: missing", "Write the table [policy]; of a kit, unpack all of it")
    return validate(table, model, str(path))


def read_with_policy(path: Path, model: type[P], policy: type[Frozen], limits: Mapping[str, Limit]) -> P:
    """A node's settings, and in a kit the policy that its people accepted. Raises ConfigError."""
    settings = read_settings(path, model)
    if not is_kit(path.parent):
        return settings
    accepted = read_policy(path.parent, policy, limits).policy
    return validate({**dict(settings), "policy": accepted}, model, str(path))


def is_answered(kit: Kit) -> bool:
    """Whether its people have ever said what they allow."""
    return (kit / POLICY_FILE).exists()


def read_policy(folder: Path, model: type[P], limits: Mapping[str, Limit]) -> PolicyFile[P]:
    """What the people of a kit allow; nothing where they have accepted nothing yet. Raises ConfigError."""
    path = folder / POLICY_FILE
    if not path.exists():
        return PolicyFile[model]()
    content = load(path, PolicyFile[model])
    if (content.policy is None) != (content.accepted is None):
        raise ConfigError(
            f"{path} has only one of [policy] and [accepted]",
            "Write your own limits under [limits]; `accept` writes the other two",
        )
    own_limits = {key: _own_limit(path, key, value, model, limits) for key, value in content.limits.items()}
    return content.model_copy(update={"limits": own_limits})


def _own_limit(path: Path, key: str, value: Any, model: type[Frozen], limits: Mapping[str, Limit]) -> Any:
    known = [name for name in limits if name in model.model_fields]
    if key not in known:
        raise ConfigError(f"{path}: limits.{key}: unknown key", f"There are {', '.join(known)}")
    field = model.model_fields[key]
    adapter = TypeAdapter(Annotated[field.annotation, field])  # type: ignore[valid-type]
    try:
        return adapter.dump_python(adapter.validate_python(value), mode="json")
    except ValidationError as error:
        raise ConfigError(f"{path}: limits.{key}: {error.errors()[0]['msg']}", "Correct it") from None


@dataclass(frozen=True)
class Line:
    """One line of the page. requested: None where the operator asks nothing; default: None where there is none; before:
    what was accepted last; limit: the people's own. value: what the policy would say."""

    key: str
    title: str
    requested: Any
    default: Any
    before: Any
    limit: Any
    value: Any
    past_default: bool = False
    past_before: bool = False
    past_limit: bool = False
    risk: str = ""

    @property
    def looser(self) -> bool:
        """Than what was accepted before; than the program's default, where nothing was."""
        return self.past_default if self.before is None else self.past_before


@dataclass(frozen=True)
class PolicyRequest:
    """All that is asked of a node. model: of its policy. guarantees: towards whom, and in words. facts: what earlier
    federations cost, and what is read, in words. columns: that a party is to read."""

    kind: EnrolledKind
    name: str
    federation: str
    terms: Terms
    model: type[Frozen]
    known: PolicyFile[Any]
    lines: tuple[Line, ...]
    guarantees: Mapping[str, str]
    facts: Mapping[str, str]
    columns: tuple[str, ...] = ()

    @property
    def looser(self) -> tuple[Line, ...]:
        """Each needs a yes."""
        return tuple(line for line in self.lines if line.looser)

    @property
    def policy(self) -> dict[str, Any]:
        """What would be enforced: what is asked, and of all else what was accepted before, or the default."""
        before = {} if self.known.policy is None else self.known.policy.model_dump(mode="json")
        chosen = {line.key: line.value for line in self.lines if line.key in self.model.model_fields}
        return {**_defaults(self.model), **before, **chosen}


def _defaults(model: type[Frozen]) -> dict[str, Any]:
    """Of every key that has one, as JSON has them."""
    fields = {name: field.default for name, field in model.model_fields.items() if not field.is_required()}
    return model.model_construct(**fields).model_dump(mode="json", include=set(fields))


def lines_of(
    limits: Mapping[str, Limit],
    requested: Mapping[str, Any],
    model: type[Frozen],
    known: PolicyFile[Any],
    columns: Sequence[str] = (),
) -> tuple[Line, ...]:
    """One for each key that the model has, in the order of `limits`; of the columns, where there are any, one more.

    requested: by key, as the policy's own JSON has it.
    """
    before = {} if known.policy is None else known.policy.model_dump(mode="json")
    defaults = _defaults(model)
    words = {**requested, **counting(limits, requested, known), "guess": _guess(requested)}
    lines = [
        _line(key, limits[key], requested.get(key), defaults.get(key), before.get(key), known.limits.get(key), words)
        for key in limits
        if key in model.model_fields
    ]
    if columns:
        earlier = None if known.accepted is None else known.accepted.columns
        lines.append(_line(COLUMNS, limits[COLUMNS], tuple(columns), None, earlier, None, words))
    return tuple(lines)


def new_patients_line(left: Sequence[str], known: PolicyFile[Any]) -> Line:
    """Of a party that comes where others have left: whose rows are these? A new name begins with an empty account."""
    before = () if known.accepted is None else known.accepted.new_patients
    fresh = others(left, before)
    return Line(
        NEW_PATIENTS, "no patient is one of", tuple(left), None, before or None, None, tuple(left),
        past_default=fresh, past_before=bool(before) and fresh,
        risk=f"The operator says that no row here is of a patient of {', '.join(left)}, which left. If one is, what it"
        " cost under that name is not counted: ask the operator for a kit made with --succeeds.",
    )  # fmt: skip


def counting(limits: Mapping[str, Limit], requested: Mapping[str, Any], known: PolicyFile[Any]) -> dict[str, Any]:
    """Unit, relation and delta by which the node counts its epsilon: the stricter of what is asked and its own."""
    return {key: _stricter(limits[key], requested[key], known.limits.get(key)) for key in COUNTED_BY}


def _stricter(limit: Limit, value: Any, own_limit: Any) -> Any:
    return own_limit if own_limit is not None and limit.looser(value, own_limit) else value


def rounded_up(epsilon: float) -> float:
    """The `most_epsilon` that is just enough, to two digits.

    >>> rounded_up(3.998), rounded_up(4.0)
    (4.0, 4.0)
    """
    return math.ceil(epsilon * 100) / 100 if math.isfinite(epsilon) else math.inf


def past_in_words(federations: int, queries: int, epsilon: float, together: float, by: str) -> dict[str, str]:
    """What other federations were promised of the same rows, and the same with this one. by: delta and unit."""
    earlier = f"{federations}; {queries} questions answered, epsilon at most {epsilon_text(epsilon)} {by}"
    return {
        "earlier federations": earlier if federations else "none",
        "with this one": f"epsilon at most {epsilon_text(together)} {by}",
    }


def guarantees(
    privacy: FederationPrivacy, collection: CollectionMode, student: float, nodes: float, neighbouring: str
) -> dict[str, str]:
    """Towards whom which guarantee holds, in words. student, nodes: epsilon of this federation, at its own delta and
    for its own unit, of what is released, and of the sums that nodes see."""
    by = f"at delta {privacy.delta:g} for a {privacy.unit}"
    words = in_plain_words(student, privacy.delta, privacy.unit, neighbouring)
    epsilons = {Bound.STUDENT: student, Bound.NODES: nodes, Bound.LARGER: max(student, nodes)}
    at_most = {bound: f"epsilon at most {epsilon_text(epsilon)} {by}" for bound, epsilon in epsilons.items()}
    at_most[Bound.TRUSTED] = "none: it learns every vote"
    towards = {seer.who: at_most[seer.bound] for seer in Disclosure(ReleaseKind.COUNTS, collection).audiences()}
    return {**towards, "the student": f"{towards['the student']}. {words}"}


def _line(
    key: str, limit: Limit, requested: Any, default: Any, before: Any, own_limit: Any, words: Mapping[str, Any]
) -> Line:
    if requested is None:
        value = next((each for each in (own_limit, before) if each is not None), default)
        return Line(key, limit.title, None, default, before, own_limit, value)
    value = _stricter(limit, requested, own_limit) if key in COUNTED_BY else requested
    risk = limit.risk if isinstance(limit.risk, str) else limit.risk.get(str(value), "")
    return Line(
        key, limit.title, requested, default, before, own_limit, value,
        past_default=default is not None and limit.looser(value, default),
        past_before=before is not None and limit.looser(value, before),
        past_limit=own_limit is not None and limit.looser(value, own_limit),
        risk=risk.format_map({**words, "asked": shown(value)}),
    )  # fmt: skip


def _guess(requested: Mapping[str, Any]) -> str:
    """Most often that anybody tells two versions apart, in words."""
    share = out_of(surest_guess(requested.get("most_epsilon") or 0.0, requested.get("delta") or 0.0))
    return share if share == ALWAYS else f"in up to {share} cases"


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


def check_accepted(
    folder: Path, known: PolicyFile[Any], kind: EnrolledKind, limits: Mapping[str, Limit], terms: Terms | None
) -> bool:
    """Whether exactly these terms were accepted; False where others were, with which these are to be compared.

    Raises
    ------
    NotAccepted : nothing was ever accepted, or the people's own limits have become stricter than that.
    """
    if known.accepted is None or known.policy is None:
        raise not_accepted(folder, kind)
    allowed = known.policy.model_dump(mode="json")
    beyond = [key for key, own_limit in known.limits.items() if limits[key].looser(allowed[key], own_limit)]
    if beyond:
        raise NotAccepted(
            f"{POLICY_FILE}: more was accepted than its own [limits] allow: {', '.join(beyond)}", _again(folder, kind)
        )
    return terms is not None and known.accepted.terms == terms.digest()


def check_covered(folder: Path, request: PolicyRequest) -> None:
    """Raise NotAccepted, which names the lines, if more is asked than was accepted."""
    more = [line.key for line in request.lines if line.past_before or line.past_limit]
    if more:
        raise NotAccepted(f"more is asked than was accepted: {', '.join(more)}", _again(folder, request.kind))


def accepted_in_words(known: PolicyFile[Any]) -> str:
    """For the doctor."""
    last = known.accepted
    return "nothing yet" if last is None else f"{last.federation!r} on {last.at[:10]}, terms {last.terms[:12]}"


def check_kit_accepted(
    home: Any,
    kind: EnrolledKind,
    model: type[Frozen],
    limits: Mapping[str, Limit],
    request: Callable[[Any, Terms], PolicyRequest],
) -> None:
    """Raise NotAccepted unless the node's people have allowed what its kit asks. What is no kit, as in a simulation,
    has a policy of its own from the beginning. home: see `MemberKind.open_home`. request: what terms ask of it."""
    if not is_kit(home.folder):
        return
    known, terms = read_policy(home.folder, model, limits), home.pinned_terms()
    if not check_accepted(home.folder, known, kind, limits, terms) and terms is not None:
        check_covered(home.folder, request(home, terms))


def read_terms(path: Path) -> Terms:
    """Of the one federation that a node takes part in. Raises ConfigError."""
    try:
        return Terms.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise ConfigError(f"{path} cannot be read", "Unpack the kit again") from None


def not_accepted(folder: Path, kind: EnrolledKind) -> NotAccepted:
    """The error of a node whose people have accepted nothing."""
    return NotAccepted(f"not accepted yet: nobody at this {kind} has said what it allows", _again(folder, kind))


def _again(folder: Path, kind: EnrolledKind) -> str:
    return f"Run: consilium node accept {folder}"


def accept(
    folder: Path, request: PolicyRequest, yes: Sequence[str] | None, tell: Callable[[str], object]
) -> Acceptance:
    """Have every looser line allowed, and write the policy; nothing is written before the last yes.

    yes: keys of all looser lines, by name; None: a person types a yes for each.

    Raises
    ------
    NotAccepted : a line is beyond the people's own limits, an answer is no yes, `yes` does not name exactly the looser
        lines, or nobody is there to ask. ConfigError : another user than the kit's owner runs this.
    """
    for line in request.lines:
        if line.past_limit:
            raise NotAccepted(
                f"{line.key}: {shown(line.value)} is asked, and {POLICY_FILE} limits it to {shown(line.limit)}; nothing"
                " was written",
                f"Do not take part; or change limits.{line.key} there, if you agree to that much",
            )
    if folder.stat().st_uid != os.geteuid():
        raise ConfigError(f"{folder} is another user's", "Run this as its owner: the node reads what is written")
    keys = [line.key for line in request.looser]
    if yes is None:
        _ask(request, tell)
    elif sorted(yes) != sorted(keys):
        named = " ".join(f"--yes {key}" for key in keys) or "no --yes"
        wrong = [f"{key} is not looser" for key in yes if key not in keys]
        wrong += [f"{key} is not named" for key in keys if key not in yes]
        raise NotAccepted(
            f"--yes must name exactly the looser lines, each once: {'; '.join(wrong) or 'one is named twice'}",
            f"All of them: {named}",
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    accepted = Acceptance(
        at=now,
        federation=request.federation,
        terms=request.terms.digest(),
        columns=request.columns,
        new_patients=next((line.value for line in request.lines if line.key == NEW_PATIENTS), ()),
    )
    table = {"limits": request.known.limits, "policy": request.policy, "accepted": accepted.model_dump(mode="json")}
    head = HEAD.format(name=f"{request.kind} {request.name}", kind=request.kind)
    replace_private(folder / POLICY_FILE, f"{head}\n{tomli_w.dumps(table)}")
    return accepted


def _ask(request: PolicyRequest, tell: Callable[[str], object]) -> None:
    """A typed yes for each looser line; the word itself, in small letters, and nothing else."""
    if request.looser and not sys.stdin.isatty():
        raise NotAccepted(
            f"each looser line needs a yes that a person types, and there is no terminal: {_keys(request.looser)}",
            f"In a script: {' '.join(f'--yes {line.key}' for line in request.looser)}",
        )
    for number, line in enumerate(request.looser, 1):
        tell("")
        tell(f"{number} of {len(request.looser)}  {line.key}: {compared(line)}")
        for text in _wrapped("  ", line.risk):
            tell(text)
        print(f"  Type {YES} to allow it: ", end="", flush=True)
        answer = sys.stdin.readline()
        if answer.strip() != YES:
            if not answer.endswith("\n"):
                tell("")
            raise NotAccepted(
                f"{line.key} is not allowed, so this federation is not accepted; nothing was written",
                f"Do not take part, or run this again: only the word {YES} is a yes",
            )


def compared(line: Line) -> str:
    """What is asked of it, beside the default and what was accepted before.

    >>> compared(Line("delta", "delta", 1e-4, 1e-5, None, None, 1e-4))
    '0.0001 is asked, the default is 1e-05'
    """
    default = "" if line.default is None else f", the default is {shown(line.default)}"
    before = "" if line.before is None else f", accepted before was {shown(line.before)}"
    return f"{shown(line.value)} is asked{default}{before}"


def _keys(lines: Sequence[Line]) -> str:
    return ", ".join(line.key for line in lines)


def text_page(request: PolicyRequest) -> list[str]:
    """The page as lines for a terminal."""
    about = {
        request.kind: f"{request.name}, federation {request.federation!r} ({request.terms.federation[:12]})",
        **{f"towards {whom}": words for whom, words in request.guarantees.items()},
        **request.facts,
    }
    wide = max(map(len, about))
    lines = [line for head, words in about.items() for line in _wrapped(f"{head:{wide}}  ", words)]
    rows = [TITLES, *map(_cells, request.lines)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(TITLES))]
    lines += [
        "",
        *("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows),
    ]
    if not request.looser:
        return [*lines, "", "No line is looser than what was accepted before, or than the default where nothing was."]
    count = len(request.looser)
    many = "1 line is looser, and needs a yes" if count == 1 else f"{count} lines are looser, and each needs a yes"
    return [*lines, "", f"{many}."]


def _wrapped(head: str, words: str) -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))


def markdown_page(request: PolicyRequest) -> str:
    """The same for a privacy officer, to be printed and signed."""
    about = {
        "federation": f"{request.federation}, digest `{request.terms.federation}`",
        "terms": f"digest `{request.terms.digest()}`",
        **{f"guarantee towards {whom}": words for whom, words in request.guarantees.items()},
        **request.facts,
    }
    lines = [f"# What is asked of {request.kind} {request.name}", ""]
    lines += [f"- **{head}**: {words}" for head, words in about.items()]
    lines += ["", _row(TITLES), _row(["---"] * len(TITLES)), *(_row(_cells(line)) for line in request.lines)]
    lines += ["", f"## Looser lines: {len(request.looser)}", ""]
    for line in request.looser:
        lines += [f"- [ ] **{line.key}** ({line.title}): {compared(line)}. {line.risk}"]
    if not request.looser:
        lines.append("None.")
    lines += ["", "Date, name, signature:", ""]
    return "\n".join(lines)


def _cells(line: Line) -> list[str]:
    mark = "BEYOND YOUR LIMIT" if line.past_limit else "LOOSER" if line.looser else ""
    limit = [] if line.limit is None else [f"your limit {shown(line.limit)}"]
    values = [shown(each) for each in (line.requested, line.default, line.before)]
    return [line.key, line.title, *values, ", ".join([*([mark] if mark else []), *limit])]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def run(kit: Kit, request: PolicyRequest, yes: Sequence[str] | None, only_print: bool, output: Format) -> None:
    """The command `accept` of a node. Raises as `accept`."""
    values = {
        "kit": str(kit.folder),
        "federation": request.terms.federation,
        "terms": request.terms.digest(),
        "guarantees": dict(request.guarantees),
        "facts": dict(request.facts),
        "lines": [{**asdict(line), "looser": line.looser} for line in request.lines],
    }
    if only_print:
        page = markdown_page(request)
        show(output, {**values, "accepted": None, "page": page}, [page])
        return
    as_text = output is Format.text
    for text in text_page(request) if as_text else ():
        print(text)
    done = accept(kit.folder, request, [] if yes is None and not as_text else yes, print)
    written = f"accepted  {kit / POLICY_FILE}, {done.at}, terms {done.terms[:12]}"
    following = f"Next: consilium doctor {kit.folder}"
    show(output, {**values, "accepted": done.at, "policy_file": str(kit / POLICY_FILE)}, ["", written, following])
