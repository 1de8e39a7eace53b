"""Reading vote histograms from .npy and .npz files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from consilium.accounting.errors import AccountingError, VotesError, VotesPathError
from consilium.accounting.histogram import check_votes


def load_votes(path: Path, queries: int | None = None) -> tuple[np.ndarray, int, np.ndarray | None]:
    """(votes int64 (queries, classes), teachers, truth int64 (queries,) or None) from a file.

    A .npz needs a key ``votes`` and may have ``truth``; a .npy is the matrix itself. The number of teachers is the sum
    of the first row, and every row must have it. Nothing is unpickled.

    Parameters
    ----------
    queries : use only the first so many.

    Raises
    ------
    AccountingError : there are not so many queries. VotesPathError : no such file. VotesError : wrong format, or no
        votes in it. The text never shows a count.
    """
    if not path.is_file():
        raise VotesPathError(f"there is no file {path}. Give a .npz with key 'votes' or a .npy.")
    truth = None
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                if "votes" not in archive:
                    keys = ", ".join(archive.files)
                    raise VotesError(f"{path} has no key 'votes' (it has: {keys}). Save the histogram as votes=.")
                votes = archive["votes"]
                truth = archive["truth"].astype(np.int64) if "truth" in archive else None
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
    if queries is not None:
        if queries < 1 or (votes.ndim and queries > votes.shape[0]):
            raise AccountingError(f"--queries {queries} is not between 1 and the {votes.shape[0]} queries in {path}.")
        votes = votes[:queries]
        truth = truth[:queries] if truth is not None else None
    if votes.ndim != 2 or not votes.shape[0]:
        raise VotesError(f"{path} holds no (queries, classes) matrix with at least one query.")
    teachers = int(votes[0].astype(np.int64).sum())
    return check_votes(votes, teachers), teachers, truth
