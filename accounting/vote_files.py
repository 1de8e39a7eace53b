"""Vote histograms as researchers hold them: counts, or a .npy or .npz file of them."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np

from consilium.accounting.checks import as_array, check_same_total
from consilium.accounting.errors import ThresholdError, VotesError, VotesPathError

_LARGEST = 2.0**53
"""Beyond it doubles skip whole numbers."""


def load_votes(path: Path) -> np.ndarray:
    """The array of a file: a .npz with a key ``votes``, or a .npy. Nothing is unpickled. The files of the PATE papers
    are read as they are: integers of any type, or whole numbers kept as floats, which the code of 2017 writes.

    Raises VotesPathError: no such file. VotesError: wrong format, or floats that are no whole numbers.
    """
    if not path.is_file():
        raise VotesPathError(f"there is no file {path}. Give a .npz with key 'votes' or a .npy.")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                if "votes" not in archive:
                    keys = ", ".join(archive.files)
                    raise VotesError(f"{path} has no key 'votes' (it has: {keys}). Save the histogram as votes=.")
                votes = archive["votes"]
        elif path.suffix == ".npy":
            votes = np.load(path, allow_pickle=False, mmap_mode="r")
        else:
            raise VotesError(f"{path} is neither .npz nor .npy. Save the histogram as votes= in a .npz.")
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise VotesError(f"{path} is not a readable NumPy file ({type(error).__name__}). Save it again.") from None
    except ValueError as error:
        if isinstance(error, VotesError):
            raise
        raise VotesError(f"{path} does not hold a plain array of numbers. Save it again, without objects.") from None
    if np.issubdtype(votes.dtype, np.floating):
        if not np.all(np.isfinite(votes) & (votes == np.floor(votes)) & (np.abs(votes) <= _LARGEST)):
            raise VotesError(f"{path} holds float counts that are no whole numbers. Save counts, not shares of them.")
        votes = votes.astype(np.int64)
    return votes


def as_histograms(votes: object, teachers: int | None = None) -> tuple[np.ndarray, int]:
    """(votes int64 (queries, classes), teachers).

    votes : signed integers (queries, classes), the count of each class; or the path of a .npy or .npz file of them.
    teachers : what every row must sum to, where it is known.

    Raises VotesError: anything else. The message never shows a count. VotesPathError: no such file.
    """
    array = load_votes(Path(votes)) if isinstance(votes, str | os.PathLike) else as_array(votes)
    found = check_same_total(array, teachers)
    if not len(array) or not found:
        raise VotesError("there are no votes to account for. Pass at least one query with at least one vote.")
    return array.astype(np.int64, copy=False), found


def as_predictions(predictions: object) -> np.ndarray:
    """A student's class probabilities as float64 (queries, classes); errors as ``curves.gaussian.public_offsets``."""
    try:
        return np.asarray(predictions, dtype=np.float64)
    except (TypeError, ValueError):
        raise ThresholdError("predictions are no (queries, classes) matrix of probabilities. Pass one.") from None


_TYPICAL = (0.3, 0.45, 0.6, 0.7, 0.78, 0.85, 0.9, 0.94, 0.97, 1.0)
"""Share of the teachers that back the plurality, at ten equally likely kinds of query. Made up, and public."""


def typical_votes(teachers: int, classes: int) -> np.ndarray:
    """Made-up public votes int64 (10, classes): six tenths of the dissent on one rival, the rest spread evenly."""
    top = np.ceil(np.maximum(np.array(_TYPICAL) * teachers, teachers / classes)).astype(np.int64)
    rest = teachers - top
    rival = np.minimum(top, np.maximum(3 * rest // 5, -(-rest // (classes - 1))))
    left, others = (rest - rival)[:, None], max(classes - 2, 1)
    spread = left // others + (np.arange(classes - 2) < left % others)
    return np.column_stack([top, rival, spread])
