"""A run that lies in a folder, as an object: its tables, its promise, its report, its audit."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from consilium.coordinator.ledger.verify import holds
from consilium.protocol.errors import DataError, PathError
from consilium.protocol.old_names import OF_SPENT, renamed
from consilium.protocol.warnings import well_formed
from consilium.simulations.council.audited import AuditResult
from consilium.simulations.council.card import card
from consilium.simulations.council.pages import Report
from consilium.simulations.council.statement import PrivacyStatement
from consilium.student.published.model import Published, find_model, load_model

if TYPE_CHECKING:
    import altair as alt

    from consilium.simulations.datasets.source import Source

SUMMARY = "summary.json"


class Run:
    """A finished run. Everything is read from its folder, `path`, when it is first asked for.

    The tables hold what only a simulation knows (each party's quality, the true outcome of public rows): they are for
    whoever has the rows anyway. What may be shown to anybody is `privacy`, `report.public`, `student` and the picture
    that notebooks draw.

    source: the rows, of a run whose rows were in memory (`Council`); an audit compares with them.
    """

    def __init__(self, path: Path | str, source: Source | None = None) -> None:
        self.path = Path(path)
        self._source = source
        self._check()

    def _check(self) -> None:
        """Raise PathError or DataError if no finished simulation lies there."""
        if not self.path.is_dir():
            raise PathError(f"{self.path} is no folder", "Give the folder of a run")
        if not (self.path / SUMMARY).is_file():
            begun = (self.path / "manifest.json").is_file()
            action = f"Go on with: consilium run --resume {self.path}" if begun else "Give the folder of a finished run"
            raise DataError(f"{self.path} holds no finished run: {SUMMARY} is not there", action)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What `consilium run --format json` prints; it holds the secret data-dependent epsilon."""
        path = self.path / SUMMARY
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if not {"privacy", "student", "baselines", "queries", "worth"} <= found.keys():
                raise ValueError
            found["privacy"] = renamed(found["privacy"], OF_SPENT)
        except OSError as error:
            raise PathError(f"cannot read {path}: {error.strerror}", "Was the folder removed?") from None
        except (ValueError, AttributeError, RecursionError):
            raise DataError(f"{path} is damaged", "Run: consilium audit") from None
        return found

    @property
    def warnings(self) -> list[dict[str, str]]:
        """What the run warned of: code and text, see `docs/warnings.md`. Some are computed from private rows."""
        return well_formed(self.summary.get("warnings"))

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """One row for each number: scope ("run", "party", "query"), name, metric, value."""
        return self._table("metrics.parquet").with_columns(pl.col("metric").replace(OF_SPENT))

    @property
    def votes_asked(self) -> pl.DataFrame:
        """One row for each query in the order in which it was asked: query, answered, and of all so far
        secret_epsilon_spent (at the released counts) and secret_epsilon_data_dependent."""
        rows = self.metrics.filter(pl.col("scope") == "query")
        wide = rows.pivot("metric", index="name", values="value")
        secret = [name for name in ("epsilon_spent", "epsilon_data_dependent") if name in wide.columns]
        return wide.select(
            pl.col("name").cast(pl.Int64).alias("query"),
            (pl.col("answered") > 0).alias("answered"),
            *(pl.col(name).alias(f"secret_{name}") for name in secret),
        ).sort("query")

    @cached_property
    def labels(self) -> pl.DataFrame:
        """What the student got, one row for each query: row of the pool, query_id, outcome, label; the noisy counts
        where histograms are released. The guarantee covers it."""
        return self._table("labels.parquet")

    @property
    def by_party(self) -> pl.DataFrame:
        """One row for each party: party, rows, accuracy and AUC of its own teachers; weight and own epsilon where
        parties have weights. Simulations only; no guarantee covers it."""
        rows = self.metrics.filter(pl.col("scope") == "party")
        wide = rows.pivot("metric", index="name", values="value").rename({"name": "party"})
        if "rows" in wide.columns:
            wide = wide.with_columns(pl.col("rows").cast(pl.Int64))
        own = self.summary.get("by_party", {})
        if not own:
            return wide
        extra = {"party": list(own), "weight": [each["weight"] for each in own.values()]}
        return wide.join(pl.DataFrame({**extra, "epsilon": [each["epsilon"] for each in own.values()]}), on="party")

    @property
    def privacy(self) -> PrivacyStatement:
        """What was promised."""
        return PrivacyStatement.of(self.summary["privacy"])

    @property
    def report(self) -> Report:
        """The report as one HTML file."""
        return Report(self.path)

    @cached_property
    def student(self) -> Published:
        """The published student. Raises BadModel if its file brings code that nobody vouched for."""
        return load_model(find_model(self.path))

    def audit(self) -> AuditResult:
        """Recompute everything that the run claims from its files: `consilium audit`."""
        from consilium.simulations.audit import audit_path

        found = audit_path(self.path, source=self._source)
        return AuditResult(holds(found.findings), found.finished, tuple(found.findings))

    def plot(self) -> alt.Chart:
        """The student beside the yardsticks that the guarantee covers or that are public, as an Altair chart."""
        from consilium.simulations.council.chart import quality_chart

        return quality_chart(self.summary)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return card(self.summary, self.privacy)

    def __getstate__(self) -> dict[str, Any]:
        """The rows of a run in memory do not travel with it."""
        return {**self.__dict__, "_source": None}

    def _table(self, name: str) -> pl.DataFrame:
        path = self.path / name
        try:
            return pl.read_parquet(path)
        except OSError as error:
            raise PathError(
                f"cannot read {path}: {error.strerror or 'it is not there'}", "Was the folder removed?"
            ) from None
        except pl.exceptions.PolarsError:
            raise DataError(f"{path} is damaged", "Run: consilium audit") from None


def load_run(path: Path | str) -> Run:
    """The run of a folder that `consilium run`, `simulate` or `Council` wrote.

    Raises
    ------
    PathError, DataError : no finished run lies there.
    """
    return Run(path)
