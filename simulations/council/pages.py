"""The report of a run as a file."""

from __future__ import annotations

import webbrowser
from dataclasses import dataclass
from pathlib import Path

FILE = "report.html"
PUBLIC = "report-public.html"


@dataclass(frozen=True)
class Report:
    """One offline HTML file in a run's folder `run_dir`. `public`: the version that may be shown to anybody."""

    run_dir: Path
    name: str = FILE

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.run_dir / self.name

    @property
    def public(self) -> Report:
        """The version without anything that the guarantee does not cover; drawn now where it is not there yet.

        Raises
        ------
        DataError : the run cannot be read.
        """
        if not (self.run_dir / PUBLIC).is_file():
            from consilium.simulations.audited_report import report_of
            from consilium.simulations.checksums import renew_sum
            from consilium.simulations.report.build import write_report

            data, _ = report_of(self.run_dir)
            write_report(data, self.run_dir / PUBLIC, public=True)
            renew_sum(self.run_dir, PUBLIC)
        return Report(self.run_dir, PUBLIC)

    def open(self) -> bool:
        """Show it in the browser; whether one was found."""
        return webbrowser.open(self.path.resolve().as_uri())
