"""Three thousand mutated messages; `python -m benchmarks secagg_fuzz` sends a hundred thousand."""

from __future__ import annotations

from pathlib import Path

from tests.secagg.fuzzing import Fuzzer


def test_mutated_messages_forge_nothing_and_break_nothing(tmp_path: Path) -> None:
    fuzzer = Fuzzer(tmp_path, seed=1)
    while fuzzer.tried < 3000:
        fuzzer.session(each=10)
    assert fuzzer.outcomes["party, InconsistentView"] > 20
    assert fuzzer.outcomes["party, BadSignature"] > 50
    assert fuzzer.outcomes["party, complaint"] > 20
    assert fuzzer.outcomes["coordinator, left out"] > 50
