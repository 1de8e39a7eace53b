"""The summary of a finished run, read from its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from consilium.protocol.errors import DataError, PathError

SUMMARY = "summary.json"


def check_finished(run: Path) -> None:
    """Raise PathError or DataError if no finished simulation lies there."""
    if not run.is_dir():
        raise PathError(f"{run} is no folder", "Give the folder of a run")
    if not (run / SUMMARY).is_file():
        raise DataError(f"{run} holds no finished run: {SUMMARY} is not there", "Give the folder of a finished run")


def read_summary(run: Path) -> dict[str, Any]:
    """What `consilium run --format json` printed; it holds the secret data-dependent epsilon.

    Raises
    ------
    PathError, DataError : no finished run lies there, or its summary is damaged.
    """
    check_finished(run)
    try:
        summary = json.loads((run / SUMMARY).read_text(encoding="utf-8"))
        if not {"privacy", "student", "baselines", "queries", "worth"} <= summary.keys():
            raise ValueError
    except OSError as error:
        raise PathError(f"cannot read {run / SUMMARY}: {error.strerror}", "Was the folder removed?") from None
    except (ValueError, AttributeError, RecursionError):
        raise DataError(f"{run / SUMMARY} is damaged", "Run: consilium audit") from None
    return summary
