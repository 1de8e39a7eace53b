"""A run as an object: tables of the folder's files, and mistakes with a type."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from consilium.protocol.errors import ConsiliumError, DataError, PathError
from consilium.simulations.council.card import afterwards, terminal, verdict
from consilium.simulations.council.estimator import Council
from consilium.simulations.council.runs import Run, load_run
from consilium.simulations.council.statement import PrivacyStatement
from tests.simulations.council.warm import QUICK, hospitals, quick_fits

FRAME = hospitals()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    out = tmp_path_factory.mktemp("runs") / "one"
    settings = {**QUICK, "mechanism": {"name": "gnmax", "sigma": 3.0}, "hand_labels": "quick"}
    with quick_fits():
        Council(**settings, out=out).fit(FRAME, "ill", owners="hospital")
    yield load_run(out)


@pytest.mark.slow
class TestRun:
    def test_tables_are_those_of_the_folder(self, run: Run) -> None:
        assert run.votes_asked.height == run.summary["queries"]["asked"] == run.labels.height
        assert run.votes_asked["secret_epsilon_spent"].is_sorted()
        assert run.by_party.columns == ["party", "rows", "accuracy", "auc"]
        assert run.by_party["rows"].to_list() == [20] * 6
        auc = run.metrics.filter((pl.col("name") == "student") & (pl.col("metric") == "auc"))["value"].item()
        assert auc == run.summary["student"]["auc"]
        assert run.student.schema.classes == ("no", "yes")

    def test_the_card_and_the_chart_hold_what_is_public_alone(self, run: Run) -> None:
        page = run._repr_html_()
        private = [run.summary["baselines"][name]["accuracy"] for name in ("pooled", "plurality", "mean_teacher")]
        shown = {f"{value:.3f}" for value in (run.summary["student"]["accuracy"], run.summary["student"]["auc"])}
        assert all(text in page for text in shown)
        assert not [value for value in private if f">{value:.3f}<" in page and f"{value:.3f}" not in _public(run)]
        assert run.plot().to_dict()["data"]["values"][0]["model"] == "student"

    def test_an_audit_without_the_rows_says_what_it_cannot_check(self, run: Run) -> None:
        found = run.audit()
        assert not found
        assert found.against["verdict"].unique().to_list() == ["cannot be checked"]
        assert "in the memory of the program" in found.against["found"][0]

    def test_an_audit_finds_what_was_changed(self, run: Run, tmp_path: Path) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(run.path, copy)
        summary = json.loads((copy / "summary.json").read_text(encoding="utf-8"))
        summary["privacy"]["epsilon_guaranteed"] = 0.01
        (copy / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
        found = load_run(copy).audit()
        assert not found
        assert ("summary.json: epsilon", "does not hold") in found.against.drop("found").rows()

    def test_the_report_is_a_file(self, run: Run) -> None:
        assert run.report.path == run.path / "report.html"
        assert bytes(run.report) == run.report.path.read_bytes()
        with open(run.report, encoding="utf-8") as file:
            assert file.read() == run.report.read_text()
        assert "srcdoc" in run.report._repr_html_()

    def test_the_public_report_is_drawn_when_it_is_wanted(self, run: Run) -> None:
        public = run.report.public
        assert public.path.name == "report-public.html"
        assert "</html>" in public.read_text()


def _public(run: Run) -> set[str]:
    """Figures that may be there by right, and be equal to a private one by chance."""
    rates, student = run.summary["student"]["rate"].values(), run.summary["student"]
    by_hand = [point["accuracy"] for point in (run.summary["worth"]["released"], run.summary["worth"]["asked"])]
    return {f"{value:.3f}" for value in (*rates, student["accuracy"], student["auc"], *by_hand)}


def _folder(tmp_path: Path, **files: str) -> Path:
    for name, content in files.items():
        (tmp_path / name.replace("__", ".")).write_text(content, encoding="utf-8")
    return tmp_path


BROKEN: list[tuple[dict[str, str], type[ConsiliumError], str]] = [
    ({}, DataError, "holds no finished run: summary.json is not there. Give the folder"),
    ({"manifest__json": "{}"}, DataError, "Go on with: consilium run --resume"),
    ({"summary__json": "{"}, DataError, "summary.json is damaged"),
    ({"summary__json": "[]"}, DataError, "summary.json is damaged"),
    ({"summary__json": '{"privacy": {}}'}, DataError, "summary.json is damaged"),
]


@pytest.mark.parametrize(("files", "kind", "told"), BROKEN)
def test_what_is_no_run_says_so(tmp_path: Path, files: dict[str, str], kind: type[ConsiliumError], told: str) -> None:
    with pytest.raises(kind, match=told):
        load_run(_folder(tmp_path, **files)).summary  # noqa: B018


def test_a_folder_that_is_not_there() -> None:
    with pytest.raises(PathError, match="is no folder"):
        load_run("nowhere")


def test_a_table_that_is_damaged_or_gone(tmp_path: Path) -> None:
    run = load_run(_folder(tmp_path, summary__json="{}", labels__parquet="no table"))
    with pytest.raises(DataError, match=r"labels.parquet is damaged"):
        run.labels  # noqa: B018
    with pytest.raises(PathError, match=r"cannot read .*metrics.parquet"):
        run.metrics  # noqa: B018


BLOCK = {
    "epsilon_guaranteed": 0.8,
    "epsilon_student": 0.8,
    "epsilon_data_dependent": 0.123456,
    "delta": 1e-5,
    "unit": "party",
    "relation": "a whole party, replaced",
    "towards": "student",
    "collection": "plaintext",
    "noise": "system",
}


def statement(**changed: object) -> PrivacyStatement:
    return PrivacyStatement.of({**BLOCK, **changed})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "strong protection"),
        ({"epsilon_guaranteed": 2.5}, "moderate protection"),
        ({"epsilon_guaranteed": 8.0}, "weak protection"),
        ({"noise": "seeded"}, "simulation with seeded noise; with real noise: strong protection"),
        ({"epsilon_guaranteed": None, "infinite": ["epsilon_guaranteed"]}, "no protection"),
        ({"delta": 1e-3}, "moderate protection"),
    ],
)
def test_the_verdict_follows_from_the_promise(changed: dict[str, object], words: str) -> None:
    assert verdict(statement(**changed), parties=100) == words


def test_the_verdict_is_of_all_fits_together() -> None:
    again = PrivacyStatement.of(BLOCK, before=((0.8, 1e-5),))
    assert verdict(again, parties=100) == "moderate protection"


def test_a_statement_never_shows_the_secret_figure() -> None:
    told = statement()
    assert told.secret_epsilon_data_dependent == 0.123456
    assert "0.123" not in f"{told!r} {told}"


def test_a_tracker_gets_what_the_promise_covers(tmp_path: Path) -> None:
    """What takes private rows only where somebody says so, and the secret epsilon never."""
    privacy = {f"epsilon_{name}": 0.8 for name in ("guaranteed", "student", "spent")} | {
        "epsilon_data_dependent": 0.1234
    }
    privacy |= {"delta": 1e-5, "unit": "party", "relation": "party", "towards": "student", "collection": "plaintext"}
    blocks = {"student": {}, "baselines": {}, "queries": {}, "worth": None}
    (tmp_path / "summary.json").write_text(json.dumps({"privacy": {**privacy, "noise": "system"}, **blocks}))
    manifest = {"scenario": "mine", "seed": 3, "config": {"data": {"set": "memory", "path": ""}, "x": {"y": [1]}}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    rows = [
        ("run", "privacy", "epsilon_data_dependent", 0.1234),
        ("run", "student", "auc", 0.7),
        ("run", "hand_labels_released", "auc", 0.72),
        ("run", "pooled", "auc", 0.9),
        ("party", "H1", "auc", 0.6),
        ("query", "0", "epsilon_spent", 0.5),
    ]
    names = ("scope", "name", "metric", "value")
    pl.DataFrame(rows, schema=names, orient="row").write_parquet(tmp_path / "metrics.parquet")
    run = Run(tmp_path)
    public = {"privacy.epsilon_guaranteed": 0.8, "privacy.delta": 1e-5}
    public |= {"student.auc": 0.7, "hand_labels_released.auc": 0.72}
    assert run.tracked_metrics() == public
    assert run.tracked_metrics(private=True) == {**public, "pooled.auc": 0.9}
    assert run.tracked_settings() == {"scenario": "mine", "seed": "3", "data.set": "memory", "x.y": "[1]"}


def _ending(**baselines: dict[str, float]) -> str:
    """The terminal's lines of a run with these yardsticks, whose student has AUC .75."""
    summary = {"parties": 100, "teachers": 100, "release": "noisy counts", "queries": {"asked": 5, "answered": 4}}
    summary |= {"privacy": BLOCK, "worth": None, "by_party": {}, "baselines": baselines}
    return terminal(summary | {"student": {"accuracy": 0.7, "auc": 0.75, "rate": {"ill": 0.4, "well": 0.6}}})


def test_a_run_ends_with_its_promise_and_one_table_from_alone_to_pooled() -> None:
    rivals = {"noisy_average": {"accuracy": 0.7, "auc": 0.76}, "private_gradient": {"accuracy": 0.7, "auc": 0.74}}
    ends = {"mean_teacher": {"accuracy": 0.6, "auc": 0.65}, "pooled": {"accuracy": 0.8, "auc": 0.85}}
    lines = _ending(**ends, **rivals).splitlines()
    assert lines[0].strip() == "strong protection"
    names = ("majority class", "one party alone", "student", "noisy average", "private gradient", "all rows in one")
    places = [next(i for i, line in enumerate(lines) if line.strip().startswith(name)) for name in names]
    assert places == sorted(places)
    assert "not covered by the guarantee" in lines[places[0] - 2]
    assert "By AUC the student goes 50% of the way from one party alone" in lines[-1]


def test_a_student_below_one_party_alone_has_no_share_of_the_way() -> None:
    ends = {"mean_teacher": {"accuracy": 0.8, "auc": 0.8}, "pooled": {"accuracy": 0.8, "auc": 0.801}}
    text = _ending(**ends)
    assert "By AUC the student is below one party alone, in the mean." in text
    assert "of the way" not in text


@pytest.mark.parametrize("pooled", [None, {"accuracy": 0.6, "auc": 0.65}])
def test_no_way_is_measured_that_does_not_go_up(pooled: dict[str, float] | None) -> None:
    ends = {"mean_teacher": {"accuracy": 0.6, "auc": 0.65}} | ({"pooled": pooled} if pooled else {})
    assert "of the way" not in _ending(**ends)


def test_a_run_of_your_own_rows_ends_with_who_was_made_public_and_what_to_do() -> None:
    """Nothing of it where data are public and the noise is real."""
    assert afterwards({"privacy": BLOCK}) == []
    owners = {"count": 12, "of": 60, "word": "hospital"}
    seeded = {"privacy": {**BLOCK, "noise": "seeded"}, "public_owners": owners, "holds_public_rows": True}
    public, holds, noise = afterwards(seeded)
    assert public.startswith("12 of your 60 hospitals were made public: ")
    assert holds.endswith("--set student.trainer.name=logistic_regression")
    assert noise == "For noise that protects, run it with --set simulation.noise=system"
