"""The page of a run: it begins with what was found, says all that a guarantee means, and nothing in it can act."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from consilium.accounting.guarantees import Kind
from consilium.accounting.units import Unit
from consilium.protocol.errors import DataError
from consilium.report.words import MANUAL
from consilium.simulations.report.build import render
from consilium.simulations.report.data import PartyQuality
from consilium.simulations.report.models import finding
from tests.simulations.report import cases as made
from tests.simulations.report.cases import SECRET_AUC, Page, above, cases, guarantee, in_labels, metrics, run

CASES = cases()
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}"
BOTH = pytest.mark.parametrize("public", [False, True], ids=["full", "public"])


def table_rows(html: str, name: str) -> list[str]:
    """Rows of the table with this id, as they are written, without its head."""
    table = html[html.index(f'id="{name}"') :]
    return table[table.index("<tbody>") : table.index("</table>")].split("<tr")[1:]


@cache
def html_of(name: str, public: bool = False) -> str:
    """Drawing takes a moment, and many tests read the same page."""
    return render(CASES[name], public)


def text_of(name: str, public: bool = False) -> str:
    return " ".join(Page(html_of(name, public)).text.split())


@BOTH
@pytest.mark.parametrize("name", CASES)
class TestEveryShape:
    def test_is_one_closed_page_that_loads_and_runs_nothing(self, name: str, public: bool) -> None:
        html = html_of(name, public)
        page = Page(html)
        assert page.tags["script"] == page.tags["iframe"] == page.tags["object"] == page.tags["img"] == 0
        for tag, attribute, value in page.attributes:
            assert not attribute.startswith("on"), (tag, attribute)
            assert attribute not in ("src", "srcset", "action", "xlink:href") and "://" not in value, (tag, attribute)
            inside = value.startswith(("data:,", "data:text/csv;")) or f'id="{value.removeprefix("#")}"' in html
            assert attribute != "href" or inside
        style = html[html.index("<style>") : html.index("</style>")]
        assert "url(" not in style and "@import" not in style
        ids = [value for _, attribute, value in page.attributes if attribute == "id"]
        assert len(ids) == len(set(ids))

    def test_has_at_most_five_chapters_and_says_the_promise_once(self, name: str, public: bool) -> None:
        html = html_of(name, public)
        chapters = re.findall(r"<h2>([^<]+)</h2>", html)
        every = ["In plain words", "Result", "Privacy", "Hospitals", "Classes"]
        assert chapters == [each for each in every if each in chapters] and len(chapters) >= 4
        row, *_ = table_rows(html, "guarantee")
        value = "unbounded" if name == "no guarantee at all" else "0.988"
        assert f'<span class="epsilon">{value}</span>' in row and "at delta 1e-5" in row and "a whole party" in row
        assert value == "unbounded" or len(re.findall(r"\b0\.988\b", html)) == 1

    def test_shows_no_leftovers_of_missing_values(self, name: str, public: bool) -> None:
        assert not re.search(r"\b(None|nan|NaN|undefined|Infinity|inf)\b", Page(html_of(name, public)).text)

    def test_can_be_read_without_eyes_and_without_a_mouse(self, name: str, public: bool) -> None:
        """Headings in order, words for every chart, and heads of rows and columns."""
        html = html_of(name, public)
        levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", html)]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        for chart in re.findall(r'<div class="chart"[^>]*>', html):
            assert re.search(r'role="img" aria-label="[^"]{20,}"', chart)
        heads = re.findall(r"<th(?:\s[^>]*)?>", html)
        assert all("scope=" in head for head in heads) and len(heads) > 10


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("usual", "The student reaches AUC 0.766, 71% of the way from one party alone (0.666) to pooled (0.808)."),
        ("nothing asked", "12 hospitals took part, but no public case was put to the vote, so nothing was released."),
        ("nobody answered", "12 hospitals voted on 40 public cases, but no label was released: the student learnt"),
        ("no student", "labels were released. The student was not evaluated."),
        ("no AUC", "The student reaches accuracy 0.687"),
    ],
)
def test_a_page_begins_with_what_was_found(name: str, expected: str) -> None:
    text = text_of(name)
    assert expected in text[: text.index("Will the patient be well?")]


def compared(name: str, metric: dict[str, Any]) -> dict[str, Any]:
    return {"baselines": {**run().baselines, name: metric}}


REACHES = "The student reaches AUC 0.766, "
RIVAL = metrics(0.7, 0.7816)
UNSURE, BETTER = metrics(0.7, 0.81) | above("auc", 0.05, -0.01, 0.11), RIVAL | above("auc", 0.02, 0.01, 0.03)
BELOW = REACHES + "below one party alone (0.770): votes are not worth it here."
FOUND: list[tuple[dict[str, Any], str]] = [
    (compared("mean_teacher", metrics(0.6, 0.77)), BELOW),
    (compared("pooled", metrics(0.7, 0.75)), REACHES + "above pooled (0.750)."),
    ({"baselines": {"mean_teacher": metrics(0.6, 0.7)}}, REACHES + "above one party alone (0.700)."),
    (
        {"baselines": {"noisy_average": UNSURE, "private_gradient": BETTER}},
        "private gradient descent does better at the same guarantee (0.782)",
    ),
    ({"warnings": [{"code": "nothing-learnt", "text": "it is constant. Ask more"}]}, "It is constant. " + REACHES),
    (compared("noisy_average", BETTER), "does better at the same guarantee (0.782)"),
    (compared("noisy_average", RIVAL | above("auc", 0.01, -0.02, 0.02)), "is not clearly better or worse at the same"),
    (compared("noisy_average", RIVAL | above("auc", -0.1, -0.2, -0.05)), "; nothing does better at the same"),
    ({"worth": in_labels()}, f"; 17 {MANUAL} reach 0.771. The student is worth about 120 {MANUAL} (81 to 200)."),
    ({"worth": in_labels(label_cost="six months")}, f"about 120 {MANUAL} (81 to 200); one takes six months."),
    ({"worth": in_labels(manual_labels=0, low=0, high=None)}, f"fewer than 5 {MANUAL} (0 to more than 900)."),
    ({"worth": in_labels(manual_labels=None, high=None)}, f"more than 900 {MANUAL}, all that there are (at least"),
]


@pytest.mark.parametrize(("change", "expected"), FOUND)
def test_what_was_found_is_said_good_or_bad(change: dict[str, Any], expected: str) -> None:
    data = replace(run(), **change)
    said = " ".join(finding(data.student or {}, data.baselines, data.worth, {}, data.warnings, len(data.classes)))
    assert expected in said
    public = data.published()
    told = " ".join(finding(public.student or {}, public.baselines, public.worth, {}, public.warnings, 2))
    assert told.count("0.766") == 1 and not any(secret in told for secret in ("0.808", "0.782", "alone", "same"))
    assert ("is worth" in told) == ("worth" in change)


def test_labels_alone_stand_on_both_pages() -> None:
    """Public rows and their labels are nobody's secret."""
    said = "Labels of the public rows alone: 90 labels, no votes and no epsilon."
    alone = {"rows": 90, "auc": 0.7654, "accuracy": 0.7, "student_above": {}}
    for public in (False, True):
        page = render(replace(run(), labels_alone=alone), public=public)
        assert said in page and "Labels of the public rows alone reach 0.765." in page
        late = render(replace(run(), labels_alone={"rows": 90, "absent": "it takes too long"}), public=public)
        assert "No labels of the public rows alone: it takes too long." in late and said not in late


def test_what_is_not_there_is_said_to_be_missing() -> None:
    why = "teachers of kind random_forest are not linear"
    data = replace(run(), **compared("noisy_average", {"absent": why}))
    assert f"No noisy average: {why}." in render(data) and why not in render(data, public=True)


class TestGuarantees:
    def test_every_guarantee_has_all_that_it_means(self) -> None:
        html = html_of("sanitised")
        stated, spent = table_rows(html, "guarantee"), table_rows(html, "spent")
        assert (len(stated), len(spent)) == (2, 2)  # what was spent is never in the table of guarantees
        for row, epsilon in zip([*stated, *spent], ("0.988", "0.425", "0.954", "0.314"), strict=True):
            assert all(word in row for word in (epsilon, "1e-5", "a whole party, replaced (its one", "the student"))
            assert "replace" in row and "order 18" in row
            assert ("secret: do not publish" in row) == (row in spent)

    @pytest.mark.parametrize(("teachers", "said"), [(1, True), (4, False)])
    def test_record_is_party_only_with_one_teacher(self, teachers: int, said: bool) -> None:
        values = guarantee(Kind.WORST_CASE, 0.5, teachers, Unit.RECORD)
        text = Page(render(replace(run(), guarantees=dict.fromkeys(("guarantee", "spent"), values)))).text
        assert ("the guarantee of a record is also that of the whole" in text) == said
        assert "a record, replaced (" in text

    @pytest.mark.parametrize(
        ("name", "key", "value"),
        [
            *(("guarantee", "epsilon", value) for value in (None, "much", float("nan"), -1.0)),
            ("guarantee", "epsilon", ...), ("spent", "kind", ...), ("spent", "method", ...),
            ("guarantee", None, ...), ("spent", None, ...),
        ],
    )  # fmt: skip
    def test_what_is_missing_or_none_is_an_error_and_no_blank(self, name: str, key: str | None, value: object) -> None:
        """A field (...: it is not there), or the whole guarantee."""
        claims = {**run().guarantees}
        claim = claims.pop(name)
        if key is not None:
            claims[name] = {**claim, key: value}
            if value is ...:
                del claims[name][key]
        with pytest.raises(DataError, match=f"{name}.*{key if value is ... and key else ''}"):
            render(replace(run(), guarantees=claims))


@BOTH
def test_an_unbounded_worst_case_is_said_loudly(public: bool) -> None:
    loud = "No privacy guarantee: the worst case is unbounded."
    html = html_of("no guarantee at all", public)
    assert html.index(loud) < html.index("<h2>") and loud not in html_of("usual", public)


def test_warnings_stand_above_the_chapters_and_secret_ones_are_left_out() -> None:
    warnings = [
        {"code": "teachers-failed", "text": f"the student is below {SECRET_AUC}"},
        {"code": "nothing-learnt", "text": f"by lot {HOSTILE}"},
    ]
    data = replace(CASES["usual"], warnings=warnings)
    full, public = render(data), render(data, public=True)
    for html in (full, public):
        assert html.index('id="warnings"') < html.index("nothing-learnt") < html.index("<h2>")
        assert HOSTILE not in html
    assert "2 warnings" in full and str(SECRET_AUC) in full
    assert "not covered by the guarantee" in next(line for line in full.split("<li>") if str(SECRET_AUC) in line)
    assert "1 warning<" in public and str(SECRET_AUC) not in public
    assert 'id="warnings"' not in html_of("usual")


@BOTH
def test_of_two_classes_the_published_threshold_is_the_only_one(public: bool) -> None:
    point = {
        "class": "ill", "threshold": 0.6121, "by": "prevalence", "flagged": 0.55, "recall": 0.7421,
        "specificity": None, "precision": 0.8302,
    }  # fmt: skip
    judged = {"calibration_error": 0.1365, "brier": 0.1922, "operating_point": point}
    data = CASES["all figures"]
    html = render(replace(data, student={**(data.student or {}), **judged}), public)
    text = " ".join(Page(html).text.split())
    for told in ("0.192", "flagged as ill where its probability is above 0.6121", "0.137", "0.742", "0.830"):
        assert told in text, told
    assert 'id="recall"' not in html
    assert '<td class="n">0.742</td>' in html  # or a telephone breaks the number
    assert 'id="operating-point"' not in html_of("all figures", public) and 'id="recall"' in html_of("all figures")


def test_parties_left_out_are_named_with_stage_and_reason() -> None:
    row = next(row for row in html_of("usual").split("<tr") if made.SECRET_REASON in row)
    assert made.SECRET_PARTY in row and ">train<" in row
    assert "Nobody: every hospital took part in every stage." in html_of("nothing to compare")


@BOTH
def test_hostile_names_are_text(public: bool) -> None:
    names = ("title", "description", "attribution", "scenario", "party_label", "mechanism", "created")
    changes: dict[str, Any] = dict.fromkeys(names, HOSTILE)
    data = replace(
        run(),
        **changes,
        versions={HOSTILE: HOSTILE},
        left_out=[(HOSTILE, HOSTILE, HOSTILE)],
        quality=[PartyQuality(HOSTILE, 30, 0.5, 0.6)],
        classes=(HOSTILE, "ill"),
        baselines={HOSTILE: metrics(0.5, 0.5)},
    )
    page = Page(render(data, public))
    assert page.tags["script"] == page.tags["img"] == 0
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in page.text
