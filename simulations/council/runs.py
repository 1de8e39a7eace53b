"""Runs from Python: `simulate` makes one, `Run` reads one that lies in a folder. What was guaranteed, what fits of one
object have cost together; and a run in few lines, for the terminal."""

from __future__ import annotations

import shutil
import tempfile
import textwrap
import warnings
import weakref
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from consilium.accounting.target import worst_case
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.parts import Privacy
from consilium.coordinator.verify import Finding, holds
from consilium.models.devices import Device, one_thread
from consilium.models.published.model import Published, find_model, load_model
from consilium.protocol.config_files import validate
from consilium.protocol.errors import DataError, PathError
from consilium.protocol.messages import CollectionMode
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.strict_json import is_infinite, number
from consilium.report.disclosure import SEEDED, Disclosure, epsilon_text
from consilium.report.exhibits import ALL_BUT_FIRST, Cell, Exhibit, PagePart, Table, TableLine, as_text, without_blanks
from consilium.report.warnings import well_formed
from consilium.report.words import PRIVATE_GRADIENT, STUDENT, delta_text, many, value_text
from consilium.simulations.council.frames import keys_of, value_errors
from consilium.simulations.folder import SUMMARY, charged_queries, check_finished, read_summary
from consilium.simulations.interruption import Interrupted
from consilium.simulations.report.models import ABOVE, METRICS, finding, models_of
from consilium.simulations.report.privacy import verdict as guarantee_verdict
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import Scenario, override, scenario_table, with_budget


@dataclass(frozen=True)
class PrivacyStatement:
    """The promise, fixed before anything was asked: a worst case over all votes, never a function of them.

    epsilon, delta : what is promised of one fit, and the one to publish.
    unit, relation : whose data it is about, and what may change of them. collection : of the votes.
    noise : "system", or "seeded", which protects nobody.
    fits, epsilon_of_all_fits, delta_of_all_fits : the same estimator fitted again on rows of the same owners: releases
        add up, by basic composition (the sums).
    epsilon_nodes : towards the coordinator, who sees noisy sums; None where it sees votes.
    secret_epsilon_data_dependent : at the votes at hand; a function of them, so telling it tells about them. It is in
        no text and no picture of the run.
    """

    epsilon: float
    delta: float
    unit: str
    relation: str
    collection: CollectionMode
    noise: str
    epsilon_nodes: float | None
    secret_epsilon_data_dependent: float | None = field(repr=False, compare=False)
    fits: int = 1
    epsilon_of_all_fits: float = 0.0
    delta_of_all_fits: float = 0.0

    @classmethod
    def of(cls, privacy: Mapping[str, Any], before: Sequence[tuple[float, float]] = ()) -> PrivacyStatement:
        """From the block `privacy` of a summary. before: epsilon and delta of earlier fits on the same owners."""
        epsilon, delta = number(privacy, "epsilon_guaranteed"), float(privacy["delta"])
        secret = privacy.get("epsilon_data_dependent")
        known = privacy.get("epsilon_nodes") is not None or is_infinite(privacy, "epsilon_nodes")
        return cls(
            epsilon=epsilon,
            delta=delta,
            unit=str(privacy["unit"]),
            relation=str(privacy["relation"]),
            collection=privacy["collection"],
            noise=str(privacy["noise"]),
            epsilon_nodes=number(privacy, "epsilon_nodes") if known else None,
            secret_epsilon_data_dependent=None if secret is None else float(secret),
            fits=1 + len(before),
            epsilon_of_all_fits=epsilon + sum(earlier for earlier, _ in before),
            delta_of_all_fits=delta + sum(earlier for _, earlier in before),
        )

    @property
    def protects(self) -> bool:
        """False where the noise came from a seed."""
        return self.noise == "system"

    def lines(self) -> list[str]:
        """For people; nothing secret in it."""
        lines = [
            f"epsilon at most {epsilon_text(self.epsilon)} at delta {delta_text(self.delta)},"
            " promised before anything was asked",
            f"unit: {self.relation}",
            f"towards whoever sees the student or what was released; collection: {self.collection}",
            Disclosure(ReleaseKind.WINNER, self.collection).towards_nodes(self.epsilon_nodes or 0),
        ]
        if self.fits > 1:
            lines.append(
                f"fitted {self.fits} times on the same owners: together epsilon at most"
                f" {epsilon_text(self.epsilon_of_all_fits)} at delta {delta_text(self.delta_of_all_fits)}"
            )
        return [*lines, *([] if self.protects else [SEEDED])]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def charged(earlier: FederationConfig, now: Privacy) -> tuple[float, float]:
    """Epsilon and delta that an earlier fit adds, by unit and relation of this one. Where its own were others: for a
    whole party that is replaced, which is at least as much as any."""
    events, then = earlier.promised_events(), earlier.privacy
    if (then.unit, then.neighbouring) != (now.unit, now.neighbouring):
        events = [replace(event, unit=Unit.PARTY, neighbouring=Neighbouring.REPLACE) for event in events]
    return worst_case(events, then.delta).epsilon, then.delta


@dataclass(frozen=True)
class Audited:
    """True where no finding speaks against the run. Nothing in it is secret."""

    finished: bool
    findings: tuple[Finding, ...] = field(repr=False)

    def __bool__(self) -> bool:
        return holds(self.findings)


def verdict(privacy: PrivacyStatement, parties: int) -> str:
    """The report's verdict in few words, of all fits on these owners together."""
    all_fits = privacy.epsilon_of_all_fits, privacy.delta_of_all_fits
    level, _ = guarantee_verdict(*all_fits, parties, unit=Unit(privacy.unit))
    protection = f"{'no' if level == 'none' else level} protection"
    return protection if privacy.protects else f"{protection} with real noise; here it came from a seed"


def terminal(summary: Mapping[str, Any], width: int = 0) -> str:
    """Lines of one run for the terminal of whoever ran it, with what is secret. width: in columns; 0: do not wrap."""
    privacy = PrivacyStatement.of(summary["privacy"])
    parties, teachers = many(summary["parties"], "party"), many(summary["teachers"], "teacher")
    with_teachers = "" if summary["teachers"] == summary["parties"] else f" ({teachers})"
    voted = f"{parties}{with_teachers} voted on {many(summary['queries']['asked'], 'public row')}. {_released(summary)}"
    heading = f"Privacy: {verdict(privacy, summary['parties'])}"
    exhibits = [_models(summary), Exhibit("guarantee", heading, (voted,), items=(*privacy.lines(),))]
    short = "\n".join(textwrap.fill(words, width) if width else words for words in in_short(summary))
    return f"{short}\n\n{as_text([PagePart('run', '', without_blanks(exhibits))], width)}"


def in_short(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """What came of a run, good or bad; then what labels reach."""
    student, worth, alone = summary["student"] or {}, summary["worth"], summary["labels_alone"]
    classes = len(student.get("rate") or {})
    return finding(student, summary["baselines"], worth, alone, summary["warnings"], classes)


def afterwards(summary: Mapping[str, Any]) -> list[str]:
    """What whoever ran it should know or do next, a line each."""
    lines, owners = list[str](), summary.get("public_owners")
    if owners:
        lines.append(
            f"{owners['count']} of your {many(owners['of'], owners['word'])} were made public: their rows were asked"
            " and judge the student, and nothing protects the people in them."
        )
    if summary.get("holds_public_rows"):
        lines.append(
            "The student's file holds rows of these people: give it to nobody who may not have them. One of numbers"
            " alone: --set student.trainer.name=logistic_regression"
        )
    rival = (summary.get("baselines", {}).get("private_gradient") or {}).get(ABOVE)
    if rival and rival["interval"][0] > 0:
        key = "" if "replaced" in summary["privacy"]["relation"] else " --set federation.privacy.neighbouring=replace"
        lines.append(
            f"`consilium study model SCENARIO --out FOLDER{key}` saves a model of {PRIVATE_GRADIENT}, which does"
            " better here"
        )
    if summary["privacy"]["noise"] == "seeded" and not is_infinite(summary["privacy"], "epsilon_guaranteed"):
        lines.append("For noise that protects, run it with --set simulation.noise=system")
    return lines


def _released(summary: Mapping[str, Any]) -> str:
    queries, release = summary["queries"], ReleaseKind(summary["release"])
    total, answered, confirmed = queries["asked"], queries["answered"], queries.get("reinforced", 0)
    text = f"{many(answered, release.noun)} {'was' if answered == 1 else 'were'} released"
    right = summary["privacy"].get("released_label_accuracy")
    if right is not None and release is ReleaseKind.COUNTS:
        text += f"; the largest count was that of the true class in {right:.0%} of them"
    elif right is not None:
        text += f", {right:.0%} of them right"
    if confirmed:
        text += f"; {many(confirmed, 'label')} of the {STUDENT} {'was' if confirmed == 1 else 'were'} confirmed"
    if silent := total - answered - confirmed:
        text += f"; {many(silent, 'row')} got none"
    return f"{text}."


def _models(summary: Mapping[str, Any]) -> Exhibit | None:
    models = models_of(summary["student"], summary["baselines"], summary["worth"], summary["labels_alone"])
    shown = [metric for metric in METRICS if any(of.get(metric) is not None for of in models.values())]
    lines = tuple(
        TableLine(label, tuple(Cell(value_text(of.get(metric))) for metric in shown)) for label, of in models.items()
    )
    table = Table(("", *(METRICS[metric] for metric in shown)), lines, ALL_BUT_FIRST)
    return Exhibit("models", "On public test rows", table=table, secret=True) if shown else None


PUBLIC = "report-public.html"


@dataclass(frozen=True)
class Report:
    """One offline HTML file in a run's folder `run_dir`. `public`: the version that may be shown to anybody."""

    run_dir: Path
    name: str = "report.html"

    @property
    def path(self) -> Path:
        return self.run_dir / self.name

    @property
    def public(self) -> Report:
        """The version without anything that the guarantee does not cover; drawn now where it is not there yet. Raises
        DataError: the run cannot be read."""
        if not (self.run_dir / PUBLIC).is_file():
            from consilium.simulations.audit import report_of
            from consilium.simulations.folder import renew_sum
            from consilium.simulations.report.build import write_report

            data, _ = report_of(self.run_dir)
            write_report(data, self.run_dir / PUBLIC, public=True)
            renew_sum(self.run_dir, PUBLIC)
        return Report(self.run_dir, PUBLIC)

    def open(self) -> bool:
        return webbrowser.open(self.path.resolve().as_uri())


class Run:
    """A finished run. Everything is read from its folder, `path`, when it is first asked for. The tables hold what only
    a simulation knows (each party's quality, the true outcome of public rows): they are for whoever has the rows
    anyway. What may be shown to anybody is `privacy`, `report.public` and `student`."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        check_finished(self.path)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What `consilium run --format json` prints; it holds the secret data-dependent epsilon."""
        return read_summary(self.path)

    @property
    def warnings(self) -> list[dict[str, str]]:
        """What the run warned of: code and text, see `docs/report.md`. Some are computed from private rows."""
        return well_formed(self.summary.get("warnings"))

    @cached_property
    def labels(self) -> pl.DataFrame:
        """What the student got, one row for each query: row of the pool, query_id, outcome, label; the noisy counts
        where histograms are released, and what it had predicted where a check is on that. The guarantee covers it."""
        path = self.path / "labels.parquet"
        try:
            return pl.read_parquet(path)
        except OSError as error:
            what = f"cannot read {path}: {error.strerror or 'it is not there'}"
            raise PathError(what, "Was the folder removed?") from None
        except pl.exceptions.PolarsError:
            raise DataError(f"{path} is damaged", "Run: consilium audit") from None

    @property
    def privacy(self) -> PrivacyStatement:
        return PrivacyStatement.of(self.summary["privacy"])

    @property
    def report(self) -> Report:
        return Report(self.path)

    @cached_property
    def student(self) -> Published:
        """The published student. Raises BadModel if its file brings code that nobody vouched for."""
        return load_model(find_model(self.path))

    def audit(self) -> Audited:
        """Recompute everything that the run claims from its files: `consilium audit`."""
        from consilium.simulations.audit import audit_path

        result = audit_path(self.path)
        return Audited(result.finished, tuple(result.findings))

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"


load_run = Run


@contextmanager
def run_folder(out: str | Path | None) -> Iterator[Path]:
    """Where a run goes: a folder of the caller's, or a temporary one; not made yet. A temporary one is removed where
    nothing came of it; but for one in whose ledger something is charged: what was released for that stays. Whoever
    interrupts a run reads whether something was."""
    parent = None if out is not None else tempfile.mkdtemp(prefix="consilium-")
    path = Path(parent or "", "run") if out is None else Path(out)
    try:
        yield path
    except (Interrupted, KeyboardInterrupt):
        queries = charged_queries(path)
        outcome = f"{queries} queries were released and stay charged: {path}" if queries else "nothing was released"
        raise KeyboardInterrupt(f"interrupted; {outcome}") from None
    finally:
        if parent is not None and not (path / SUMMARY).exists() and not charged_queries(path):
            shutil.rmtree(parent, ignore_errors=True)


def run_of(path: Path, temporary: bool, reworded: Callable[[str], str] = str) -> Run:
    """The run that has just ended there; Python is told all that it warns of. temporary: whether its folder goes with
    the object, and at the end of the program. reworded: brings a warning into the caller's words."""
    run = Run(path)
    if temporary:
        weakref.finalize(run, shutil.rmtree, path.parent, ignore_errors=True)
    for warning in run.warnings:
        warnings.warn(f"{warning['code']}: {reworded(warning['text'])}", UserWarning, stacklevel=4)
    return run


def simulate(
    scenario: str | Path | Scenario,
    *,
    seed: int = 0,
    engine: Literal["local", "ray"] = "local",
    device: Device = "auto",
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Run:
    """Run a scenario, as `consilium run` does.

    Parameters
    ----------
    scenario : name of a shipped one, path of a file, or what `load_scenario` gives.
    seed : of division, teachers, student and, where the scenario says so, noise.
    out : new folder of the run; None: a temporary one, removed with the `Run`.
    settings : keys of the scenario, {"simulation.noise": "system"}.

    Raises
    ------
    ConsiliumError : what is wrong, and what to do; a wrong value is a ValueError too. KeyboardInterrupt
    """
    with value_errors(), one_thread():
        name = "scenario" if isinstance(scenario, Scenario) else Path(scenario).stem
        table = scenario.model_dump(mode="json") if isinstance(scenario, Scenario) else scenario_table(str(scenario))
        override(table, keys_of(settings).items())
        loaded = validate(with_budget(table, name, seed), Scenario, name)
        with run_folder(out) as path:
            run_scenario(name, loaded, engine, seed, path, device=device)
        return run_of(path, temporary=out is None)
