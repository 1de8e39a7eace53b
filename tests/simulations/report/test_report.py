"""The HTML report: what it says, what the public version keeps to itself, and that nothing in it can act."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from consilium.accounting.guarantees import Kind
from consilium.accounting.units import Unit
from consilium.protocol.errors import DataError
from consilium.simulations.report.build import render
from consilium.simulations.report.data import LeftOutParty, PartyQuality
from tests.simulations.report import cases as made
from tests.simulations.report.cases import SECRET_AUC, Page, cases, guarantee, metrics, run

pytestmark = pytest.mark.slow

CASES = cases()
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}"


def table_rows(html: str, name: str) -> list[str]:
    """Rows of the table with this id, as they are written, without its head."""
    table = html[html.index(f'id="{name}"') :]
    return table[table.index("<tbody>") : table.index("</table>")].split("<tr")[1:]


@cache
def html_of(name: str, public: bool = False) -> str:
    """Drawing takes a moment, and many tests read the same page."""
    return render(CASES[name], public)


@pytest.mark.parametrize("public", [False, True], ids=["full", "public"])
@pytest.mark.parametrize("name", CASES)
class TestEveryShape:
    def test_is_one_closed_page_that_loads_and_runs_nothing(self, name: str, public: bool) -> None:
        html = html_of(name, public)
        page = Page(html)
        assert page.tags["script"] == page.tags["iframe"] == page.tags["object"] == page.tags["img"] == 0
        for tag, attribute, value in page.attributes:
            assert not attribute.startswith("on"), (tag, attribute)
            assert attribute not in ("src", "srcset", "action", "xlink:href") and "://" not in value, (tag, attribute)
            assert attribute != "href" or value == "data:," or f'id="{value.removeprefix("#")}"' in html
        style = html[html.index("<style>") : html.index("</style>")]
        assert "url(" not in style and "@import" not in style
        assert ("meta", "content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in page.attributes

    def test_says_the_promise_once_with_its_delta_and_unit(self, name: str, public: bool) -> None:
        html = html_of(name, public)
        row, *_ = table_rows(html, "guarantee")
        value = "unbounded" if name == "no guarantee at all" else "0.988"
        assert f'<span class="epsilon">{value}</span>' in row and "at delta 1e-5" in row and "a whole party" in row
        assert value == "unbounded" or len(re.findall(r"\b0\.988\b", html)) == 1

    def test_each_word_that_is_explained_leads_to_its_meaning(self, name: str, public: bool) -> None:
        html = html_of(name, public)
        links = re.findall(r'<a class="term" href="#([^"]+)" title="[^"]{10,}"', html)
        assert links and all(f'id="{place}"' in html for place in links)
        assert len(links) == len(set(links))  # where it first stands, and nowhere else

    def test_shows_no_leftovers_of_missing_values(self, name: str, public: bool) -> None:
        text = Page(html_of(name, public)).text
        assert not re.search(r"\b(None|nan|NaN|undefined|Infinity|inf)\b", text)

    def test_can_be_read_without_eyes_and_without_a_mouse(self, name: str, public: bool) -> None:
        """Headings in order, words for every chart, heads of rows and columns, and keys reach what scrolls."""
        html = html_of(name, public)
        levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", html)]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        assert '<html lang="en">' in html
        for chart in re.findall(r'<div class="chart"[^>]*>', html):
            assert 'role="img"' in chart and re.search(r'aria-label="[^"]{20,}"', chart)
        heads = re.findall(r"<th(?:\s[^>]*)?>", html)
        assert all("scope=" in head for head in heads) and len(heads) > 10
        for scrolled in re.findall(r'<div class="table long"[^>]*>', html):
            assert 'tabindex="0"' in scrolled and "aria-label=" in scrolled

    def test_ids_are_unique(self, name: str, public: bool) -> None:
        ids = [value for _, attribute, value in Page(html_of(name, public)).attributes if attribute == "id"]
        assert len(ids) == len(set(ids))


def test_tiles_equal_the_data() -> None:
    data = run()
    answered = int(data.answered.sum())
    assert 0 < answered < 40
    assert Page(render(data)).tiles == {
        "hospitals": ("12", "12 teachers"),
        "labels released": (str(answered), "of 40 asked; at most 40 of 50 allowed"),
        "student AUC": ("0.766", "on public test cases"),
        "released labels right": ("65.4%", "39.8% to 84.4% (95%), against the public truth"),
    }


@pytest.mark.parametrize(
    ("name", "tile", "expected"),
    [
        ("nothing asked", "labels released", ("0", "of 0 asked; at most 0 of 10 allowed")),
        ("nothing asked", "student AUC", ("–", "not evaluated")),
        ("nothing asked", "released labels right", ("–", "no label to compare")),
        ("no AUC", "student accuracy", ("0.687", "no AUC: one class only among the test cases")),
    ],
)
def test_tiles_of_odd_runs(name: str, tile: str, expected: tuple[str, str]) -> None:
    assert Page(html_of(name)).tiles[tile] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nothing asked", "12 hospitals took part, but no public case was put to the vote, so nothing was released."),
        ("nobody answered", "12 hospitals voted on 40 public cases, but no label was released: the student learnt"),
        ("no student", "labels were released. The student was not evaluated."),
        ("three parties", "3 hospitals voted on 40 public cases"),
    ],
)
def test_sentence_says_what_happened(name: str, expected: str) -> None:
    assert expected in Page(html_of(name)).text


@pytest.mark.parametrize("public", [False, True], ids=["full", "public"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "worth in labels",
            "This student is worth about 120 labels by hand (81 to 200); 17 labels were released."
            " 17 labels by hand where they can be had reach AUC 0.771.",
        ),
        ("worth of months", "17 labels by hand reach AUC 0.771; one takes six months."),
        ("worth none", "is worth fewer than 5 labels by hand (0 to more than 900); 17 labels were released"),
        (
            "worth all",
            "is worth more than 900 labels by hand, all that there are (at least 81); 17 labels were released",
        ),
    ],
)
def test_what_it_is_worth_stands_at_the_top_of_both_versions(name: str, expected: str, public: bool) -> None:
    """Public rows and released labels determine it."""
    page = html_of(name, public)
    text = " ".join(Page(page).text.split())
    assert expected in text and text.index(expected) < text.index("labels released")
    for label, auc in (("17 labels by hand", "0.771"), ("40 labels by hand", "0.781")):
        assert re.search(rf"{label}[\d.]+ {auc}", text), label
    figure = page[page.index('id="models-chart"') : page.index('id="outcome"')]
    assert "17 labels by hand" in figure and ("not covered" in figure) is (not public)
    assert ("0.808" in text) is (not public)


def test_a_party_alone_and_an_average_that_there_is_not() -> None:
    text = " ".join(Page(html_of("a party alone")).text.split())
    assert "one party alone, 10th to 90th percentile0.511 to 0.700 –" in text
    assert "No noisy average: teachers of kind random_forest are not linear." in text
    public = html_of("a party alone", public=True)
    assert "0.511" not in public and "random_forest" not in public


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("one is better", "the private gradient descent did better than this student: AUC 0.782 against"),
        ("none is", "this student did best: AUC"),
        ("it is open", "nothing is clearly better than this student (AUC"),
    ],
)
def test_it_says_which_private_model_did_best(name: str, said: str) -> None:
    text = " ".join(Page(html_of(f"rivals, {name}")).text.split())
    assert said in text and "the best of 2 rivals" in text
    assert "did be" not in (public := html_of(f"rivals, {name}", public=True)) and "0.782" not in public


class TestPrivacyTable:
    def test_every_guarantee_has_all_that_it_means(self) -> None:
        html = html_of("sanitised")
        guarantees, spent, accounting = (table_rows(html, name) for name in ("guarantee", "spent", "accounting"))
        privacy = [guarantees[0], *spent, guarantees[1]]
        assert (len(guarantees), len(spent)) == (2, 2)  # the guarantee and what was spent are never in one table
        rows = [" ".join(pair) for pair in zip(privacy, accounting, strict=True)]
        assert len(rows) == 4
        for row, epsilon, kind in zip(
            rows,
            ("0.988", "0.954", "0.314", "0.425"),
            ("Worst case", "At the released counts", "Data-dependent", "Sanitised"),
            strict=True,
        ):
            for word in (
                epsilon,
                kind,
                "1e-5",
                "a whole party, replaced (its one teacher",
                "replace",
                "the student",
                "order 18",
            ):
                assert word in row
            assert ("secret: do not publish" in row) == (kind in ("At the released counts", "Data-dependent"))
        assert not any("order" in row or "direction" in row for row in privacy)  # of no use to a physician

    @pytest.mark.parametrize(("teachers", "said"), [(1, True), (4, False)])
    def test_record_is_party_only_with_one_teacher(self, teachers: int, said: bool) -> None:
        values = guarantee(Kind.WORST_CASE, 0.5, teachers, Unit.RECORD)
        text = Page(render(replace(run(), guarantees=dict.fromkeys(("guarantee", "spent"), values)))).text
        assert ("the guarantee of a record is also the guarantee of the whole" in text) == said
        assert "a record, replaced (" in text

    @pytest.mark.parametrize(
        ("name", "key"), [("guarantee", "epsilon"), ("spent", "kind"), ("data_dependent", "publishable")]
    )
    def test_a_missing_field_is_an_error_not_a_blank(self, name: str, key: str) -> None:
        data = run()
        broken = {field: value for field, value in data.guarantees[name].items() if field != key}
        with pytest.raises(DataError, match=f"{name}.*{key}"):
            render(replace(data, guarantees={**data.guarantees, name: broken}))

    @pytest.mark.parametrize("epsilon", [None, "much", float("nan")])
    def test_an_epsilon_that_is_none_is_an_error(self, epsilon: object) -> None:
        data = run()
        broken = {**data.guarantees["guarantee"], "epsilon": epsilon}
        with pytest.raises(DataError, match="guarantee"):
            render(replace(data, guarantees={**data.guarantees, "guarantee": broken}))

    @pytest.mark.parametrize("name", ["guarantee", "spent"])
    def test_a_missing_guarantee_is_an_error(self, name: str) -> None:
        data = run()
        rest = {other: values for other, values in data.guarantees.items() if other != name}
        with pytest.raises(DataError, match=name):
            render(replace(data, guarantees=rest))


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("seeded", [False, True])
def test_seeded_noise_is_said_loudly(seeded: bool, public: bool) -> None:
    text = Page(render(replace(run(), seeded_noise=seeded), public)).text
    assert ("it can be repeated, and protects nobody" in text) == seeded


@pytest.mark.parametrize("public", [False, True])
def test_an_unbounded_worst_case_is_said_loudly(public: bool) -> None:
    loud = "No privacy guarantee: the worst case is unbounded."
    assert loud in html_of("no guarantee at all", public)
    assert loud not in html_of("usual", public)


def test_warnings_stand_above_everything_and_secret_ones_are_left_out() -> None:
    warnings = [
        {"code": "below-one-party", "text": f"the student is below {SECRET_AUC}"},
        {"code": "nothing-learnt", "text": f"by lot {HOSTILE}"},
    ]
    data = replace(CASES["usual"], warnings=warnings)
    full, public = render(data), render(data, public=True)
    for html in (full, public):
        assert html.index('id="warnings"') < html.index('class="tiles"')
        assert "nothing-learnt" in html
        assert HOSTILE not in html
    assert "2 warnings" in full
    assert str(SECRET_AUC) in full[: full.index('class="tiles"')]
    assert "1 warning<" in public
    assert str(SECRET_AUC) not in public
    assert 'id="warnings"' not in html_of("usual")


@pytest.mark.parametrize("public", [False, True])
def test_probabilities_and_operating_point(public: bool) -> None:
    assert 'id="probabilities"' not in html_of("usual", public)  # of a run whose student was not judged so
    student = {
        **metrics(0.6871, 0.7659),
        "calibration_error": 0.1365,
        "brier": 0.1922,
        "mean_predicted": {"well": 0.4093, "ill": 0.5907},
        "rate": {"well": 0.3109, "ill": 0.6891},
        "operating_point": {
            "class": "ill", "threshold": 0.6121, "by": "prevalence", "flagged": 0.55, "recall": 0.7421,
            "specificity": None, "precision": 0.8302,
        },
    }  # fmt: skip
    text = " ".join(Page(render(replace(CASES["usual"], student=student), public)).text.split())
    for told in (
        "0.192", "flagged as ill where its probability is above 0.6121", "0.409", "0.591", "0.137", "0.742", "0.830",
    ):  # fmt: skip
        assert told in text, told
    assert (
        "0.6255" not in text
        and "0.626" not in text
        and 'id="recall"' not in render(replace(CASES["usual"], student=student), public)
    )  # one operating point
    of_three = {**student, "operating_point": None}
    assert 'id="operating-point"' not in render(replace(CASES["usual"], student=of_three), public)


def test_parties_left_out_are_named_with_stage_and_reason() -> None:
    html = render(run())
    row = next(row for row in html.split("<tr") if made.SECRET_REASON in row)
    assert made.SECRET_PARTY in row and ">train<" in row
    assert "Nobody: every hospital took part in every stage." in render(replace(run(), left_out=[]))


@pytest.mark.parametrize("public", [False, True])
def test_hostile_names_are_text(public: bool) -> None:
    data = replace(
        run(),
        **dict.fromkeys(
            ("title", "description", "attribution", "scenario", "party_label", "mechanism", "created"), HOSTILE
        ),
        versions={HOSTILE: HOSTILE},
        left_out=[LeftOutParty(HOSTILE, HOSTILE, HOSTILE)],
        quality=[PartyQuality(HOSTILE, 30, 0.5, 0.6)],
        classes=(HOSTILE, "ill"),
        baselines={HOSTILE: metrics(0.5, 0.5)},
        seconds={HOSTILE: 1.0},
    )
    page = Page(render(data, public))
    assert page.tags["script"] == page.tags["img"] == 0
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in page.text


@pytest.mark.parametrize("name", ["consensus"])
def test_arrays_that_do_not_fit_are_an_error(name: str) -> None:
    data = run()
    with pytest.raises(DataError, match=f"{name} has 39 values for 40 queries"):
        render(replace(data, **{name: getattr(data, name)[:-1]}))


def test_a_claim_without_a_guarantee_is_struck_through() -> None:
    data = replace(run(), claimed_epsilon=0.0231)
    guarantees = {
        name: {**guarantee, "epsilon": None, "infinite": ["epsilon"]} for name, guarantee in data.guarantees.items()
    }
    text = render(replace(data, guarantees=guarantees))
    assert "<del>0.0231</del>" in text
    assert "<del>" not in render(run())
