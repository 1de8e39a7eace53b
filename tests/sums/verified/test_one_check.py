"""A coordinator that dies between a check and the labels of what passed draws the check's noise once.

The noisy sums of the check are there when it is started again. If it drew its own noise anew, each start would show the
parties another outcome of the same check, of which one is charged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.accounting.mechanisms import Confident
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.protocol.noise import SystemNoise
from consilium.protocol.queries import query_ids
from consilium.sums.verified.terms import VerifiedTerms
from tests.verified.small import TwoKinds, made, queries_of

DEATHS, QUERIES, WITNESS = 4, 30, 3


class Killed(BaseException):
    """Nothing of the coordinator's own runs after it."""


@pytest.mark.parametrize("outcomes", [1, DEATHS + 1], ids=["written down", "control"])
def test_every_start_shows_one_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcomes: int) -> None:
    """Control: where the outcome is not written down. That two of five alike are drawn of 30 queries: below 1e-3."""
    if outcomes > 1:
        monkeypatch.setattr(Ledger, "checked", lambda _, ids, outcome: outcome)
    small = made(
        tmp_path,
        parties=7,
        mechanism=Confident(threshold=4, sigma1=4.0, sigma2=4.0),
        query_budget=QueryBudget(queries=100, answers=100),
        noise_shares=1,
        simulation=False,
        seed=-1,
        noise_seed=None,
        second={"allow_simulation": False},
    )
    x = queries_of(QUERIES)
    ids, shown, deaths, reply = query_ids(x), [], [0], TwoKinds._reply

    def dying(self: TwoKinds, node: int, request: Any) -> Any:
        answer = reply(self, node, request)
        if (request.kind, node) == ("query.va_upload", WITNESS) and VerifiedTerms.parse(request.terms).phase == 2:
            passed = set(query_ids(request.queries))
            shown.append(np.array([name in passed for name in ids]).tobytes())
            deaths[0] += 1
            if deaths[0] <= DEATHS:
                raise Killed
        return answer

    monkeypatch.setattr(TwoKinds, "_reply", dying)
    ledger = Ledger(tmp_path / "ledger.db", small.config.digest(), small.config.model_dump_json())
    for _ in range(DEATHS):
        with pytest.raises(Killed):
            LabelService(small.config, ledger, small.collector(), lambda _: SystemNoise(), 7, small.log).ask(x)
    LabelService(small.config, ledger, small.collector(), lambda _: SystemNoise(), 7, small.log).ask(x)
    assert len(shown) == DEATHS + 1
    assert len(set(shown)) == outcomes
    assert ledger.spent() == (QUERIES, np.frombuffer(shown[-1], dtype=bool).sum())
    ledger.close()
