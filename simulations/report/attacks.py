"""The chapter on attacks: what somebody could find out who tried, beside what the guarantee allows. All of it is
secret.

It is drawn from `attack.json` alone, see `simulations.attack.laboratory`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from consilium.protocol.errors import DataError
from consilium.report.disclosure import epsilon_text
from consilium.report.exhibits import Cell, Exhibit, PagePart, Table, TableLine, without_blanks
from consilium.report.words import many, plural

PROVES_NOTHING = (
    "An attack that fails proves nothing. It says what these attackers could not do in so many games. The guarantee"
    " bounds every attacker, and those that nobody has thought of."
)
_HOW = (
    "Each attack is played on many federations with the target in them, and on as many without. The attacker says in"
    " which ones the target is. It is cautious: of 100 federations without the target it accuses about one by"
    " mistake. Who guesses blindly then finds the target in 1 of 100. What the guarantee allows is for as many mistakes"
    " as there may have been in so many games. Each attack is also played on the same federation without its noise."
    " That shows that the attack works."
)
_KNOWS = (
    "Who knows all other rows is the attacker that a guarantee is about. Who knows where rows come from has no row of"
    " the federation, but may draw others like them."
)
_LOWER = (
    "“Epsilon at least” is what the games prove, with all bounds of this chapter true at once in 95 of 100 such"
    " chapters. It lies far below the guarantee where few games were played. Where counts with Gaussian noise are"
    " seen, the second number uses that; the first never does."
)
_TO_CHOOSE = 2
"""Games for each false alarm that is aimed at: half of them choose the threshold, on the others one is expected."""


_TOO_FEW = (
    "Where too few games were played, nothing is said. Students are trained anew for each game: give more time with"
    " --budget."
)
_NOT_ATTACKED = "The student’s model was not attacked: no time was left. Give more with --budget."
STUDENT = "the student's model"
"""As `membership.StudentObserver` calls it."""


def attacks_part(values: Mapping[str, Any], look: str = "") -> PagePart:
    """Empty where nothing was played.

    Raises
    ------
    DataError : the values are not those of `laboratory.attacked`.
    """
    if not values:
        return PagePart("attacks", "What an attacker finds out", ())
    try:
        exhibits = without_blanks(
            [
                _plain(values),
                _best(values),
                _votes(values),
                _differences(values),
                _attributes(values),
                _liars(values),
                _faults(values),
                _all(values),
            ]
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError("attack.json is not that of a run", "Run: consilium attack RUN") from error
    return PagePart("attacks", "What an attacker finds out", exhibits, look=look)


def _plain(values: Mapping[str, Any]) -> Exhibit:
    words = [PROVES_NOTHING, _verdict(values), *_in_short(values)]
    return Exhibit("attacks-meaning", words=tuple(filter(None, words)), secret=True)


def _verdict(values: Mapping[str, Any]) -> str:
    mistakes = [one["fault"] for one in values.get("faults", []) if one["state"] == "found"]
    if mistakes:
        return f"This program makes a known mistake here, so that its guarantee does not hold: {', '.join(mistakes)}."
    played = [one for one in values.get("membership", []) if one["epsilon_promised"] is not None]
    wrong = [one for one in played if one["broken"]]
    if wrong:
        return f"{len(wrong)} of {len(played)} attacks prove more than the guarantee allows: the guarantee is false."
    return f"None of {len(played)} attacks found more than the guarantee allows." if played else ""


def _in_short(values: Mapping[str, Any]) -> list[str]:
    """What the tables below say, a sentence each."""
    words = list[str]()
    party, in_use = values["party_label"], [one for one in values.get("differences", []) if not one["control"]]
    for one in in_use:
        if one["deviation"]:
            words.append(
                f"Sums that are taken apart tell one {party}'s vote under noise of {one['deviation']:.0f} votes; each"
                " is charged."
            )
        elif not one["read"]:
            words.append(f"No search among {one['granted']:,} exact sums found one {party}'s vote.")
    released = [one for one in values.get("attributes", []) if one["by"] in ("released counts", "the student's model")]
    if released:
        more = sum(one["interval"][0] > 0 for one in released)
        words.append(
            f"Of {len(released)} guesses at somebody's attributes, {more or 'none'} did better, beyond luck, with what"
            " was released than without it."
        )
    flips = [one for one in values.get("liars", []) if one["attack"].startswith("flip")]
    if flips:
        most = max(flips[:-1], key=lambda one: one["liars"])
        words.append(
            f"{most['liars']} lying {plural(party)} turn {100 * most['moved']:.0f} of 100 cases. One whose votes nobody"
            f" checks, as under masks, turns {100 * flips[-1]['moved']:.0f}."
        )
    return words


def _signed(value: float) -> str:
    """With its sign, and none of what rounds to 0."""
    text = f"{value:+.3f}".replace("-", "−")
    return text if text[1:] != "0.000" else "0.000"


def _needed(detected: Mapping[str, Any]) -> int:
    """Games without which a share at this rate of false alarms means nothing."""
    return round(_TO_CHOOSE / detected["level"])


def _hundred(detected: Mapping[str, Any], games: int) -> str:
    if games < _needed(detected):
        return f"{many(games, 'game')} of {_needed(detected):,} needed"
    low, high = detected["interval"]
    return f"{100 * detected['share']:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def _epsilon(value: float | None) -> str:
    return "–" if value is None else epsilon_text(value)


def _at_least(value: float | None) -> str:
    """Rounded down: what is proved must not be more than what was found."""
    return "–" if value is None else f"{math.floor(1000 * value) / 1000:.3f}"


def _best(values: Mapping[str, Any]) -> Exhibit | None:
    """Of each observer and unit the attack that found most, beside the same without noise."""
    attacks = values.get("membership", [])
    lines = []
    for unit in ("record", "patient", "party"):
        for observer in dict.fromkeys(one["observer"] for one in attacks):
            these = [one for one in attacks if one["unit"] == unit and one["observer"] == observer]
            noisy, bare = ([one for one in these if one["noise"] is noise] for noise in (True, False))
            if not noisy:
                continue
            best = max(noisy, key=lambda one: one["detected"][1]["interval"][0])
            promised, found = best["epsilon_promised"], best["detected"][1]
            told = best["games"] >= _needed(found)
            enough = [one for one in bare if one["games"] >= _needed(found)]
            control = max((one["detected"][1]["share"] for one in enough), default=None)
            lines.append(
                TableLine(
                    f"{_unit(values, unit)}, by {_whom(observer)}",
                    (
                        Cell(_hundred(found, best["games"])),
                        Cell(_most(promised, values["delta"], found) if told else "–"),
                        Cell("–" if control is None else f"{100 * control:.0f}"),
                        Cell(_at_least(max(_bound(one) for one in noisy)) if told else "–"),
                        Cell("nothing: it is trusted" if promised is None else _epsilon(promised)),
                    ),
                )
            )
    if not lines:
        return None
    short = any(one["games"] < _needed(one["detected"][1]) for one in attacks)
    words = (
        _HOW,
        *((_TOO_FEW,) if short else ()),
        *(() if any(one["observer"] == STUDENT for one in attacks) else (_NOT_ATTACKED,)),
    )
    columns = (
        "looked for", "found of 100", "guarantee allows", "found without noise", "epsilon at least",
        "epsilon guaranteed",
    )  # fmt: skip
    table = Table(columns, tuple(lines), frozenset(range(1, 5)))
    return Exhibit("attacks-membership", "Was it in the federation?", words, table, secret=True)


def _most(promised: float | None, delta: float, found: Mapping[str, Any]) -> str:
    return "all" if promised is None else f"{_allowed(promised, delta, found):.1f}"


def _allowed(epsilon: float, delta: float, detected: Mapping[str, Any]) -> float:
    """Of 100 targets those that may be found at most, at as many false alarms as there may have been: both sides of the
    definition."""
    alarms = detected["alarms_interval"][1]
    return 100 * min(math.exp(epsilon) * alarms + delta, 1 - math.exp(-epsilon) * (1 - alarms - delta))


def _bound(attack: Mapping[str, Any]) -> float:
    return max(attack["epsilon_at_least"], attack["epsilon_at_least_gaussian"] or 0.0)


def _unit(values: Mapping[str, Any], unit: str) -> str:
    return f"a whole {values['party_label']}" if unit == "party" else f"a {unit} of a {values['party_label']}"


def _whom(observer: str) -> str:
    if observer.startswith("coordinator"):
        return f"the {observer.replace(':', ', which sees')}"
    return f"who holds {observer}"


def _votes(values: Mapping[str, Any]) -> Exhibit | None:
    """What is left of the noise where one question is asked again and again."""
    lines = tuple(
        TableLine(
            one["way"],
            (
                Cell(f"{one['times']:,}"),
                Cell(f"{one['votes_missed']:.1f}"),
                Cell(f"{100 * one['exact']:.0f} of 100"),
                Cell("unbounded" if one["epsilon"] is None else _epsilon(one["epsilon"])),
            ),
        )
        for one in values.get("votes", [])
    )
    words = (
        "Noise that is drawn anew is averaged away. So a public case is answered once: whoever asks again gets the same"
        " answer. Near-duplicates of a case are other cases, and each is charged.",
    )
    columns = ("a question is", "answers", "votes missed in a count", "exact histograms", "epsilon of these answers")
    table = Table(columns, lines, frozenset(range(1, 5)))
    return (
        Exhibit("attacks-votes", "Can the votes be had by asking again?", words, table, secret=True) if lines else None
    )


def _differences(values: Mapping[str, Any]) -> Exhibit | None:
    """Whether sums over different parties have one party's vote in them; nothing of plaintext votes."""
    searches = values.get("differences", [])
    lines = tuple(
        TableLine(
            one["rule"],
            (
                Cell("no (control)" if one["control"] else "yes"),
                Cell(f"{one['asked']:,}"),
                Cell(f"{one['granted']:,}"),
                Cell(f"{one['read']} of {one['histories']}"),
                Cell(
                    "–" if one["deviation"] is None else f"{one['deviation']:.0f} votes" if one["deviation"] else "none"
                ),
            ),
        )
        for one in searches
    )
    words = (
        "A sum with a party and a sum without it differ by its vote. Somebody who asks for many sums, over parties of"
        " its choice, searches for a combination in which one party is left alone. It asks about cases that are nearly"
        " the same, leaves parties out, and founds further federations. The controls are rules that look right, and"
        " are not.",
        "Where noise is in each sum, such a combination is easily had. It is one vote, more or less, under noise of the"
        " deviation in the last column, and each sum is charged.",
    )
    columns = ("what stands in the way", "in use here", "sums asked for", "sums had", "a vote alone", "noise on it")
    table = Table(columns, lines, frozenset(range(2, 6)))
    return (
        Exhibit("attacks-differences", "Is one party's vote the difference of sums?", words, table, secret=True)
        if lines
        else None
    )


def _noise(deviation: float | None) -> str:
    if deviation is None:
        return "–"
    return f"{deviation:.0f} votes" if deviation else "none"


def _attributes(values: Mapping[str, Any]) -> Exhibit | None:
    """What releases tell of attributes, beyond what a model of all rows says."""
    guesses = values.get("attributes", [])
    lines = tuple(
        TableLine(
            f"{one['attribute']} of {one['whose']}",
            (
                Cell(f"{one['by']} (control)" if one["control"] else one["by"]),
                Cell(f"{one['auc']:.3f}"),
                Cell(_signed(one["beyond"])),
                Cell(f"{_signed(one['interval'][0])} to {_signed(one['interval'][1])}"),
            ),
        )
        for one in guesses
    )
    words = (
        "What all parties together teach, such as how a symptom goes with an outcome, is what a federation is for, and"
        " no guarantee hides it. So the question is what somebody learns beyond that. Of the subject of a query: with"
        " the released counts, more than a model of all rows says anyway. Of a row that trained: more than of rows"
        " which did not.",
        "The area under the curve (AUC) is .5 for who guesses blindly, and 1 for who knows. An interval that reaches"
        " across 0 shows nothing.",
    )
    columns = ("attribute", "guessed by", "AUC", "beyond", "95 % interval")
    table = Table(columns, lines, frozenset(range(2, 5)))
    return (
        Exhibit(
            "attacks-attributes", "What is told of somebody's attributes?", words, table, look="folded", secret=True
        )
        if lines
        else None
    )


def _liars(values: Mapping[str, Any]) -> Exhibit | None:
    """What lying parties do to the student."""
    lines = tuple(
        TableLine(
            one["attack"],
            (
                Cell(f"{one['liars']:,}"),
                Cell(f"{100 * one['moved']:.0f} of 100"),
                Cell("–" if one["value"] is None else f"{one['metric'].replace('auc', 'AUC')} {one['value']:.3f}"),
                Cell("–" if one["hit"] is None else f"{100 * one['hit']:.0f} of 100"),
                Cell("–" if one["own"] is None else f"{one['own']:.3f}, honest {one['own_honest']:.3f}"),
            ),
        )
        for one in values.get("liars", [])
    )
    words = (
        f"Liars among the {plural(values['party_label'])} vote against what most others say (flip), or for one class"
        f" where a feature is large, so that the student learns that (trigger), or for the last class throughout"
        f" (class), or for what a model of their patients alone says, so that the student is good for these (gain). A"
        f" lie that is a vote cannot be told from an opinion: it counts as one. Where votes are hidden under masks"
        f" nothing checks them, and one liar may add as much as the noise explains.",
    )
    columns = (
        "lie", "liars", "cases turned", "student on public test rows", "rows called what they want",
        "on the liars' own patients",
    )  # fmt: skip
    table = Table(columns, lines, frozenset(range(1, 6)))
    return Exhibit("attacks-liars", "What can liars do?", words, table, look="folded", secret=True) if lines else None


def _faults(values: Mapping[str, Any]) -> Exhibit | None:
    """Known mistakes, and whether this program makes them here."""
    findings = values.get("faults", [])
    lines = tuple(TableLine(one["fault"], (Cell(one["state"]), Cell(one["evidence"]))) for one in findings)
    words = (
        "Mistakes that audits found in other programs of this kind. Each is looked for by what this federation does,"
        " with the program that ran it. A look sees the mistake that it is made for, and no other.",
    )
    table = Table(("mistake", "here", "what was seen"), lines)
    return (
        Exhibit("attacks-faults", "Does the program make known mistakes?", words, table, secret=True) if lines else None
    )


def _all(values: Mapping[str, Any]) -> Exhibit | None:
    """Every attack, for a reviewer."""
    attacks: Sequence[Mapping[str, Any]] = values.get("membership", [])
    if not attacks:
        return None
    lines = tuple(
        TableLine(
            f"{one['target']} {one['unit']}",
            (
                Cell(one["observer"], one["knows"]),
                Cell("yes" if one["noise"] else "no"),
                *(Cell(_hundred(detected, one["games"])) for detected in one["detected"]),
                Cell(_at_least(one["epsilon_at_least"]), _at_least(one["epsilon_at_least_gaussian"])),
                Cell(_epsilon(one["epsilon_promised"])),
                Cell("–" if one["ratio"] is None else f"{one['ratio']:.2f}"),
                Cell(f"{one['games']:,}"),
                Cell(f"{one['seconds']:.1f}"),
            ),
        )
        for one in attacks
    )
    columns = (
        "target", "observer, and what it knows", "noise", "found at .1 %", "found at 1 %",
        "epsilon at least, and of Gaussian noise", "guaranteed", "ratio", "games", "seconds",
    )  # fmt: skip
    words = (
        _KNOWS,
        _LOWER,
        "“Worst found” is what a search over records and labels came up with: a record with a wrong label, or"
        " copied from a query; a party that says the opposite of the others. “Typical” are some by lot, taken"
        " together.",
    )
    return Exhibit(
        "attacks-all",
        "Every attack, for a reviewer",
        words,
        Table(columns, lines, frozenset(range(3, 10))),
        look="folded",
        secret=True,
    )
