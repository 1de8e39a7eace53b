"""What the tests cost, as a plugin of `make test`: `-p tests.costs`.

CPU seconds of each file, those of processes that it started and waited for included, since seconds on the clock say
little on a machine that others use too.
"""

from __future__ import annotations

import os
import resource
from collections import defaultdict
from collections.abc import Iterator

import pytest

FILES = int(os.environ.get("COST_FILES", "10"))
"""Files that are named, the most expensive first."""


def used() -> float:
    """CPU seconds of this process and of those it has waited for."""
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in found)


class Costs:
    """Of this process's tests, and, where it distributes them, of all."""

    def __init__(self) -> None:
        self._before = used()
        self._cpu: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        """Each report carries what was used since the last one; xdist passes attributes of simple types on."""
        report = yield
        now = used()
        report.cpu, self._before = now - self._before, now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._cpu[report.nodeid] += report.cpu  # type: ignore[attr-defined]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        files: defaultdict[str, float] = defaultdict(float)
        for test, seconds in self._cpu.items():
            files[test.partition("::")[0]] += seconds
        terminalreporter.section(f"CPU seconds, {sum(files.values()):.0f} in all")
        for file in sorted(files, key=files.__getitem__, reverse=True)[:FILES]:
            terminalreporter.write_line(f"{files[file]:8.1f}  {file}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs())
