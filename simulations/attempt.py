"""One attempt at a run: the lock of its folder, its status, and the sums of its files.

Private rows are removed at the end of every attempt.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import traceback
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from consilium.coordinator.ledger import Ledger, stored_config
from consilium.coordinator.verify import Contradiction, Damaged, Unfinished
from consilium.protocol.errors import ConfigError, ConsiliumError, FailedAfterRelease, LedgerError, StorageError
from consilium.protocol.files import replace_private, unreadable
from consilium.simulations.interruption import Signals
from consilium.simulations.scenario import Scenario, apply_override, scenario_json
from consilium.simulations.workspace import Workspace

FILE = "SHA256SUMS"
LEFT_OUT = ("private/work/", "sessions/")
"""Folders of what is no result."""
PASSING = (FILE, "lock", ".part")
"""Ends of the names of files that are none either."""
LISTED = ("coordinator.json", "events.jsonl", "labels.parquet", "ledger.db", "manifest.json", "metrics.parquet")
LISTED += ("private/report.json", "student/MODEL_CARD.md", "student/model.safetensors", "student/plan.json")
LISTED += ("student/student.json", "summary.json")
"""Files that every finished simulation has."""


def write_sums(run_dir: Path) -> None:
    """Write it, last of all."""
    _write(run_dir, {name: _sum(run_dir / name) for name in _names(run_dir)})


def renew_sum(run_dir: Path, name: str) -> None:
    """Write the sum of one file anew, of a report that was drawn again; nothing where the run has no such file."""
    if (run_dir / FILE).exists():
        _write(run_dir, {**_read(run_dir), name: _sum(run_dir / name)})


def check_sums(run_dir: Path, complete: bool) -> str:
    """Compare every file with what is written. A report that `consilium report` draws again has its sum renewed.

    Raises
    ------
    Damaged : files are missing or changed. Contradiction : the run ended, but does not say so.
    Unfinished : no such file.
    """
    if not (run_dir / FILE).exists():
        raise Unfinished(f"{FILE} is written when the run ends")
    if not complete:
        raise Contradiction(f"{FILE} is written when a run ends, but the manifest says that this one did not")
    written = _read(run_dir)
    if not written.keys() >= set(LISTED):
        raise Damaged(f"{FILE} lacks {', '.join(sorted(set(LISTED) - set(written)))}")
    missing = sorted(set(written) - set(_names(run_dir)))
    changed = sorted(name for name in set(written) - set(missing) if _sum(run_dir / name) != written[name])
    faults = {"missing": missing, "changed": changed}
    if missing or changed:
        raise Damaged("; ".join(f"{kind}: {', '.join(names)}" for kind, names in faults.items() if names))
    return f"{len(written)} files as they were when the run ended"


def _read(run_dir: Path) -> dict[str, str]:
    try:
        lines = [line.split("  ", 1) for line in (run_dir / FILE).read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        raise Damaged(f"{FILE} cannot be read") from None
    if not lines or any(len(line) != 2 for line in lines):
        raise Damaged(f"{FILE} is no list of sums")
    return {name: value for value, name in lines}


def _write(run_dir: Path, sums: dict[str, str]) -> None:
    replace_private(run_dir / FILE, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def _names(run_dir: Path) -> list[str]:
    names = (path.relative_to(run_dir).as_posix() for path in run_dir.rglob("*") if path.is_file())
    return sorted(name for name in names if not (name.startswith(LEFT_OUT) or name.endswith(PASSING)))


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


LEDGER, LABELS = "ledger.db", "labels.parquet"
ANOTHER_STUDENT = "--set student.trainer.name=NAME has another student learn from the same answers"


@dataclass(frozen=True)
class RunLedger:
    """What a run's ledger says: its id, and how many queries are charged."""

    ledger: str
    queries: int

    @classmethod
    def of(cls, run_dir: Path) -> RunLedger | None:
        """Of the run in this folder; None where it has no ledger that can be read."""
        path = run_dir / LEDGER
        try:
            with closing(Ledger(path, stored_config(path)[0], "", read_only=True)) as ledger:
                return cls(ledger.id, ledger.spent()[0])
        except LedgerError:
            return None


def after_release(error: Exception, run_dir: Path, action: str) -> FailedAfterRelease | None:
    """The error of a run that failed after something had been charged; None where nothing was. action: how it goes on.

    The text of an error that nobody foresaw is left out: it may quote a row.
    """
    released = RunLedger.of(run_dir)
    if released is None or not released.queries:
        return None
    what = (
        f"{_reason(error).rstrip('.')}. {released.queries} queries had been released and charged by then: the answers"
        f" are in {run_dir / LABELS}, the charge in {run_dir / LEDGER}. Going on charges nothing for them again"
    )
    return FailedAfterRelease(what, action, str(run_dir))


def _reason(error: BaseException) -> str:
    if isinstance(error, ConsiliumError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


FORMAT = 2
MANIFEST = "manifest.json"


class Attempt:
    """Enter it before anything that works in the folder, so that it is left when all of that has ended.

    keep_work: leave the copies of the parties' rows under `private/work`, whatever happens.
    """

    def __init__(self, signals: Signals, keep_work: bool) -> None:
        self._signals = signals
        self._keep_work = keep_work
        self._space: Workspace | None = None
        self._manifest: dict[str, Any] = {}
        self._lock = ExitStack()

    def __enter__(self) -> Attempt:
        return self

    def begin(self, open_space: Callable[[], Workspace], manifest: dict[str, Any]) -> Workspace:
        """Take the folder: from here on it is this attempt's, and its status is "running".

        Raises
        ------
        OutputExists, ConfigError : the folder cannot be made or opened, or another process works in it.
        """
        with self._signals.held():
            space = open_space()
            self._lock.enter_context(space.exclusive())
            space.remove_work()  # what a killed process left behind
            (space.run_dir / "failure.json").unlink(missing_ok=True)
            self._space, self._manifest = space, manifest
            try:
                self._status(space, "running")
            except OSError:
                if not (space.run_dir / MANIFEST).exists():  # nobody could resume a folder without it
                    shutil.rmtree(space.run_dir, ignore_errors=True)
                    self._space = None
                raise
        return space

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        with self._lock:
            space = self._space
            if space is None:
                return
            interrupted = self._signals.interrupted
            with self._signals.held():
                if not self._keep_work:
                    space.remove_work(ended=error is None and interrupted is None)
                if interrupted is not None or isinstance(error, KeyboardInterrupt):
                    self._status(space, "interrupted")
                elif error is None:
                    self._status(space, "complete")
                    write_sums(space.run_dir)
                else:
                    reason = str(error) if isinstance(error, ConsiliumError) else type(error).__name__
                    self._status(space, f"failed: {reason}")
            if interrupted is not None:
                interrupted.run_dir = space.run_dir
                if error is not interrupted:
                    raise interrupted from None
            elif isinstance(error, Exception) and not isinstance(error, StorageError):  # which says how to go on itself
                again = f"Go on with: consilium run --resume {shlex.quote(str(space.run_dir))}; {ANOTHER_STUDENT}"
                if (failed := after_release(error, space.run_dir, again)) is not None:
                    raise failed from error

    def _status(self, space: Workspace, status: str) -> None:
        """Whole or not at all: a resumed run depends on it."""
        text = json.dumps({**self._manifest, "status": status}, indent=2) + "\n"
        replace_private(space.run_dir / MANIFEST, text)


def unfinished(run_dir: Path, options: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """Manifest of a run that can be resumed.

    Parameters
    ----------
    options : what the user asks for beside the run: values by option, such as "--seed": 5. overrides : of --set.

    Raises
    ------
    ConfigError : no run, a complete one, one of another version, or what is asked for contradicts it; named one by one.
    """
    path = run_dir / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        status, version = manifest["status"], manifest["format"]
        if not all(isinstance(manifest[key], kind) for key, kind in _WRITTEN.items()):
            raise ValueError
    except OSError as error:
        raise unreadable(path, error, "Give the folder of a run") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"{path} is damaged", "Run the scenario anew") from None
    if status == "complete":
        raise ConfigError(f"run {run_dir} is complete", "There is nothing to resume")
    if version != FORMAT:
        raise ConfigError(f"run {run_dir} has format {version}, this version reads {FORMAT}")
    has = {
        "SCENARIO": manifest["scenario"],
        "--engine": manifest["engine"],
        "--seed": manifest["seed"],
        "--device": manifest.get("device", {}).get("asked", "auto"),
        "--party-cpus": manifest.get("ray", {}).get("party_cpus", 1),
        "--party-gpus": manifest.get("ray", {}).get("party_gpus", 0.0),
        "--out": str(run_dir.resolve()),
    }
    against = [f"{name} {value} (the run has {has[name]})" for name, value in options.items() if value != has[name]]
    against += [
        f"--set {item} (the run has another value)"
        for item in overrides
        if not of_trainer(item) and _changes(manifest["config"], item)
    ]
    if against:
        raise ConfigError(
            f"--resume takes everything from {run_dir}, and these contradict it: {', '.join(against)}",
            "Leave them away, or start another run without --resume",
        )
    return manifest


_WRITTEN = {
    **dict.fromkeys(("scenario", "engine", "created", "federation"), str),
    **dict.fromkeys(("config", "data"), dict),
    "seed": int,
}
"""What a manifest holds that a resumed run needs."""


def of_trainer(override: str) -> bool:
    """Whether it is about what the student learns with, which neither rows, votes nor charges depend on."""
    return override.strip().startswith("student.trainer")


def unlike(config: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Tables in which two configurations differ, but for what the student learns with and where a file lies."""

    def alike(table: dict[str, Any]) -> dict[str, Any]:
        whole = json.loads(json.dumps(table))
        whole["student"].pop("trainer", None)
        (whole["simulation"].get("own_teacher") or {}).pop("file", None)
        return whole

    left, right = alike(config), alike(other)
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


def _changes(config: dict[str, Any], override: str) -> bool:
    """Whether the override would make another scenario of it. Raises ConfigError if it cannot be one at all."""
    table = json.loads(json.dumps(config))
    apply_override(table, override)
    try:
        return scenario_json(Scenario.model_validate(table)) != config
    except ValueError:
        return True
