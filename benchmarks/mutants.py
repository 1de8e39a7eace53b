"""Would the tests notice? `python -m benchmarks.mutants [WORDS ...] [--check]`.

Each mutant breaks one rule of charging, noise, refusal or resumption by a few characters. It is applied alone, in a
copy of the working tree, and the tests that should notice are run there. Killed: a test failed. Survived: all passed,
so that nothing guards the rule. Every set of tests runs once on the copy as it is, since a test that fails anyway
kills everything.

WORDS choose mutants by their names. --check only looks whether every text stands exactly once in the rooms: a mutant
whose text is not there any more is an error, wherever its file went. Exit code 1: one survived, or is an error.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.house import ROOMS

ROOT = Path(__file__).resolve().parents[1]
MOST_SECONDS = 900


class Mutant(NamedTuple):
    """name: the rule that is broken. text: stands once in the rooms. instead: what is put there. tests: for pytest."""

    name: str
    text: str
    instead: str
    tests: str


_MECHANISMS = "tests/coordinator/mechanisms"
_SUMS = f"{_MECHANISMS}/test_noise_in_sums.py"
_EACH = f"{_MECHANISMS}/test_mechanisms.py {_MECHANISMS}/test_mechanism_laws.py {_MECHANISMS}/test_each_mechanism.py"
_EVENTS = "tests/accounting/events"
_SERVICE = "tests/coordinator/labels/test_service.py"
_LEDGER = "tests/coordinator/ledger"
_VERIFY = "tests/coordinator/verify"
_COLLECT = "tests/coordinator/collection/test_who_is_summed.py tests/coordinator/collection/test_secure_collection.py"
_PARTY = "tests/party/test_node.py tests/party/test_promises.py tests/party/test_terms.py"
_SECOND = "tests/aggregator"
_PROTOCOL = "tests/protocol/verified"
_FIELDS = f"{_PROTOCOL}/test_verified_arithmetic.py"

MUTANTS: tuple[Mutant, ...] = (
    # who is believed, and when a session is resumed
    Mutant(
        "c + 1 accusers are believed", "if len(names) >= colluders + 2]", "if len(names) >= colluders + 1]", _COLLECT
    ),
    Mutant("c + 3 accusers are needed", "if len(names) >= colluders + 2]", "if len(names) > colluders + 2]", _COLLECT),
    Mutant(
        "a session that t can unmask is lost", "return summed - over >= least", "return summed - over > least", _COLLECT
    ),
    Mutant(
        "a session that cannot be unmasked is kept", "return summed - over >= least", "return summed >= least", _COLLECT
    ),
    Mutant(
        "a party that is left out is asked again",
        "if name not in self._history.left_out]",
        "if name]",
        f"{_COLLECT} tests/coordinator/collection/test_secure_refusals.py",
    ),
    Mutant(
        "a block of c + 1 is enough",
        "self.weights, self.c + 2)",
        "self.weights, self.c + 1)",
        "tests/secagg tests/protocol",
    ),
    # refusals of a party
    Mutant(
        "a party promises more than its epsilon",
        "    if total > policy.most_epsilon:\n",
        "    if total > 2 * policy.most_epsilon:\n",
        _PARTY,
    ),
    Mutant(
        "a party answers one query too many",
        "account.answered() + len(more)) > policy.most_queries:",
        "account.answered() + len(more)) > policy.most_queries + 1:",
        _PARTY,
    ),
    Mutant(
        "a party answers more than was promised",
        "if queries > promise.only(release).most(phase):",
        "if queries > promise.only(release).most(phase) + 1:",
        f"{_PARTY} tests/schedule/test_party.py",
    ),
    Mutant(
        "earlier federations do not count",
        "check_within([*_earlier(account, federation), *promise.of_weight(weight).events], policy)",
        "check_within([*promise.of_weight(weight).events], policy)",
        _PARTY,
    ),
    Mutant(
        "a simulated party forgets what failed",
        "            vars(self._account).update(before)\n",
        "            pass\n",
        "tests/simulations/engines/test_memory_account.py",
    ),
    Mutant(
        "a block answers before it has written down what it gave",
        "            block.save()\n",
        "",
        "tests/simulations/engines/test_blocks.py",
    ),
    Mutant(
        "parties of a block share an account",
        "return self.accounts.setdefault(place, MemoryAccount())",
        "return self.accounts.setdefault(0, MemoryAccount())",
        "tests/simulations/engines/test_blocks.py",
    ),
    Mutant(
        "a party begins sums that its policy would end",
        'if terms.collection != "plaintext" and elsewhere + promise.queries > policy.most_queries:',
        'if terms.collection == "plaintext" and elsewhere + promise.queries > policy.most_queries:',
        _PARTY,
    ),
    Mutant(
        "patients are promised what rows are",
        "if unit is Unit.PATIENT and not rules.patient.known:",
        "if unit is Unit.PATIENT and rules.patient.known:",
        f"{_PARTY} tests/party/teachers/test_shards.py",
    ),
    # refusals of the second aggregator
    Mutant(
        "the second aggregator sums one query too many",
        "if ever > self.policy.most_queries:",
        "if ever > self.policy.most_queries + 1:",
        _SECOND,
    ),
    Mutant(
        "the second aggregator sums a query twice",
        "if answered:\n            raise AlreadyAnswered",
        "if False:\n            raise AlreadyAnswered",
        _SECOND,
    ),
    Mutant(
        "the second aggregator promises more than its epsilon",
        "return cost <= most, cost",
        "return True, cost",
        _SECOND,
    ),
    Mutant(
        "exact sums against the policy",
        "policy.check_exact_sums(not all(event.noise_by_parties for event in events))",
        "policy.check_exact_sums(not any(event.noise_by_parties for event in events))",
        _SECOND,
    ),
    Mutant(
        "exact sums against a party's policy",
        "return not all(event.noise_by_parties for event in events_of(terms.promise))",
        "return not any(event.noise_by_parties for event in events_of(terms.promise))",
        _PARTY,
    ),
    Mutant(
        "a round overwrites the session of the other",
        "-{phase}{where}{self.SUFFIX}",
        "-1{where}{self.SUFFIX}",
        _COLLECT,
    ),
    Mutant(
        "hidden votes are collected in plaintext without keys",
        'if config.collection != "plaintext":',
        "if False:",
        _COLLECT,
    ),
    # the query budget, and charge before release
    Mutant(
        "the label service asks one query too many",
        "if new > queries_left or answers_left == 0:",
        "if new > queries_left + 1 or answers_left == 0:",
        _SERVICE,
    ),
    Mutant(
        "the ledger passes the cap on queries",
        "spent[0] + asked > most_queries or",
        "False or",
        f"{_LEDGER} {_SERVICE}",
    ),
    Mutant(
        "the ledger passes the cap on answers",
        "spent[1] + answered > most_answers:",
        "spent[1] > most_answers:",
        f"{_LEDGER} {_SERVICE}",
    ),
    Mutant(
        "a phase that is over goes on",
        "if batch.phase is not None and batch.phase < last_phase:",
        "if False:",
        f"{_LEDGER} tests/schedule/test_run.py tests/schedule/test_model.py",
    ),
    Mutant(
        "a closed ledger is charged",
        'if self._connection.execute("SELECT 1 FROM closing").fetchone():\n'
        '                    raise LedgerError(f"{self.path}: {CLOSED}", "Nothing was released")\n'
        "                check_charge",
        "check_charge",
        _LEDGER,
    ),
    Mutant(
        "answers beyond the last are released",
        "noise, probabilities).up_to(room)",
        "noise, probabilities)",
        f"{_EACH} {_SERVICE}",
    ),
    Mutant(
        "answers beyond the last of noisy sums",
        "beyond = np.cumsum(self.answered) > answers",
        "beyond = np.cumsum(self.answered) > answers + 1",
        f"{_EACH} {_SUMS}",
    ),
    Mutant(
        "a confirmation is paid as an answer",
        "return (self.labels != NO_LABEL) & ~self.reinforced\n\n    def within",
        "return self.labels != NO_LABEL\n\n    def within",
        f"{_EACH} {_SERVICE}",
    ),
    # noise
    Mutant(
        "the check of Confident has no noise",
        "return number + noise.gaussian(self.sigma1, number.shape) >= self.threshold",
        "return number >= self.threshold",
        _EACH,
    ),
    Mutant(
        "labels have the noise of the check",
        "(chosen + noise.gaussian(self.sigma2, chosen.shape)).argmax(axis=1)",
        "(chosen + noise.gaussian(self.sigma1, chosen.shape)).argmax(axis=1)",
        _EACH,
    ),
    Mutant(
        "one number of noise for all counts",
        "self._decided(votes + self._noise(noise, votes.shape))",
        "self._decided(votes + self._noise(noise, (len(votes), 1)))",
        _EACH,
    ),
    Mutant(
        "the check of noisy sums is of what noise adds up to",
        "self._checked(projected(noisy, votes), votes, noise, probabilities)",
        "self._checked(noisy, votes, noise, probabilities)",
        _SUMS,
    ),
    Mutant(
        "no top-up is made",
        "return noises[round_ - 1].top_up(self.givers(parties))",
        "return 0.0",
        f"{_SUMS} {_SERVICE}",
    ),
    Mutant("colluders' noise counts", "max(0, givers - self.colluders) * self._share", "givers * self._share", _SUMS),
    Mutant(
        "a top-up may be too fine",
        "math.sqrt(max(missing, LEAST_TOP_UP)) if missing > 0",
        "math.sqrt(missing) if missing > 0",
        _SUMS,
    ),
    Mutant(
        "nodes are promised the whole noise",
        "sigmas = [noise.drawn.sigma for noise in noises]",
        "sigmas = [noise.sigma for noise in noises]",
        _SUMS,
    ),
    Mutant(
        "what fine shares cost is left out",
        "return replace(event, slack=slack) if slack > NO_SLACK else event",
        "return event",
        _SUMS,
    ),
    # charge
    Mutant(
        "a party with k teachers is charged as one vote",
        "        return teachers_per_party\n    return min(2",
        "        return 1\n    return min(2",
        f"{_EVENTS} tests/accounting/curves",
    ),
    Mutant(
        "a replaced record moves one vote",
        "return min(2, teachers_per_party) if neighbouring is Neighbouring.REPLACE else 1",
        "return 1",
        f"{_EVENTS} tests/accounting/curves",
    ),
    Mutant(
        "candidates are not charged",
        "return self.candidates * (self._worst_case_rdp(orders) + on_top)",
        "return self._worst_case_rdp(orders) + on_top",
        _EVENTS,
    ),
    Mutant(
        "queries that fail the check are free",
        "return self.asked * check + self.answered * rdp_argmax(",
        "return self.answered * check + self.answered * rdp_argmax(",
        f"{_EVENTS} {_EACH}",
    ),
    Mutant(
        "a screen is charged as one number",
        "screened = self.asked * _one(self, self.sigma1, self.noise_shares, orders)",
        "screened = self.asked * _one(self, self.sigma1, self.noise_shares, orders) / 2",
        _EVENTS,
    ),
    Mutant(
        "a scalar is charged as a histogram's half",
        "return value * math.sqrt(2) if scalar else value",
        "return value * 2 if scalar else value",
        "tests/accounting/curves",
    ),
    Mutant(
        "the release of a sanitised value is free",
        "epsilon=max(0.0, released + cost + converted),",
        "epsilon=max(0.0, released + converted),",
        f"{_EVENTS} tests/accounting/sanitise {_LEDGER}",
    ),
    Mutant(
        "the cap looks at the data",
        "return Spend(event, rdp, added, after, after <= self._cap.max_epsilon)",
        "return Spend(event, rdp, added, after, True)",
        _EVENTS,
    ),
    Mutant("added deltas are not taken off", "    return delta - added\n", "    return delta\n", _EVENTS),
    Mutant(
        "one direction is charged",
        "for power in divergence.powers(orders, both):\n            np.maximum(best, divergence.moments",
        "for power in divergence.powers(orders, False):\n            np.maximum(best, divergence.moments",
        "tests/accounting/outcome",
    ),
    Mutant(
        "tails are those of less noise",
        'return _tails_of(check_scale(sigma, "sigma"))',
        'return _tails_of(check_scale(sigma, "sigma") * 0.99)',
        "tests/accounting/curves tests/protocol/test_noise.py",
    ),
    # what a run claims
    Mutant("a forged event passes the audit", "        if batch.event != expected:\n", "        if False:\n", _VERIFY),
    Mutant(
        "a passed query budget passes the audit",
        "        if answered > query_budget.answers:\n",
        "        if False:\n",
        _VERIFY,
    ),
    Mutant(
        "a forged epsilon passes the audit",
        "if claimed != truth and not math.isclose(claimed, truth, rel_tol=TOLERANCE):",
        "if False:",
        _VERIFY,
    ),
    # what the studies compare
    Mutant(
        "a plurality ignores weights",
        "[weights.get(party, 1) for party in parties]",
        "[1 for party in parties]",
        "tests/simulations/test_analysis.py tests/simulations/test_weights.py",
    ),
    Mutant(
        "a run that has just begun is deserted",
        "max(self.wait, YOUNG_SECONDS)",
        "self.wait",
        "tests/simulations/test_watching.py",
    ),
    # the two fields of verified votes
    Mutant(
        "the larger field is folded as late as the smaller",
        "        if terms > self.most_folded:\n",
        "        if False:\n",
        _FIELDS,
    ),
    Mutant(
        "shares are added up over all lines at once",
        "for start in range(0, len(other), self.most_unreduced):",
        "for start in range(0, len(other), len(other)):",
        _FIELDS,
    ),
    Mutant(
        "numbers above the prime are read",
        "        return values if self.is_canonical(values) else None\n",
        "        return values\n",
        f"{_FIELDS} {_PROTOCOL}/test_lies.py",
    ),
    Mutant(
        "numbers above the prime are taken from a key",
        "bad = np.flatnonzero(numbers >= self.prime)",
        "bad = np.flatnonzero(numbers > self.prime)",
        _FIELDS,
    ),
    Mutant(
        "a session may be in a larger field than it needs",
        "        if self.version != version_for(reach):\n",
        "        if False:\n",
        f"{_PROTOCOL}/test_verified_terms.py",
    ),
    Mutant(
        "sums may wrap round the smaller field",
        "if reach > self.field.most_reach:",
        "if reach > MOST_REACH:",
        f"{_PROTOCOL}/test_verified_terms.py",
    ),
    Mutant(
        "terms of one version are signed as another",
        '    return f"verified/{version}/session"\n',
        '    return f"verified/{VERSION}/session"\n',
        f"{_PROTOCOL}/test_verified_terms.py",
    ),
    Mutant(
        "totals of the larger field are as short as those of the smaller",
        'np.dtype("<u4"), np.dtype("<i8"), 3)',
        'np.dtype("<u4"), np.dtype("<u4"), 3)',
        f"{_PROTOCOL}/test_verified_terms.py",
    ),
)


def place_of(mutant: Mutant, root: Path = ROOT) -> Path:
    """The one file of the rooms in which the text stands, once.

    Raises
    ------
    LookupError : it stands nowhere, or more than once.
    """
    found = [
        (path, count)
        for room in ROOMS
        for path in sorted((root / room).rglob("*.py"))
        if (count := path.read_text(encoding="utf-8").count(mutant.text))
    ]
    if sum(count for _, count in found) != 1:
        where = ", ".join(f"{count} x {path.relative_to(root)}" for path, count in found) or "nowhere"
        raise LookupError(f"{mutant.name}: its text stands {where}, and should once: {mutant.text!r}")
    return found[0][0]


@contextmanager
def copy_of_the_tree() -> Iterator[Path]:
    """A folder with the files that git knows, as they are in the working tree; links stay links."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    with tempfile.TemporaryDirectory(prefix="consilium-mutants-") as folder:
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_symlink() or (ROOT / name).is_file():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, Path(folder) / name, follow_symlinks=False)
        shared = ROOT.parent / "shared"
        yield Path(folder) if not shared.exists() else _beside(Path(folder), shared)


def _beside(tree: Path, shared: Path) -> Path:
    """The tree one level deeper, with the golden files beside it as they are beside the repository."""
    inner = tree / "tree"
    inner.mkdir()
    for path in list(tree.iterdir()):
        if path != inner:
            path.rename(inner / path.name)
    (tree / "shared").symlink_to(shared)
    return inner


def run_tests(tree: Path, tests: str) -> tuple[str, float]:
    """("passed", "failed", "hangs" or "error", wall seconds) of pytest in the tree."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests.split()]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=os.environ | threads | {"PYTHONPATH": str(tree)},
            capture_output=True,
            timeout=MOST_SECONDS,
        )
        outcome = {0: "passed", 1: "failed"}.get(done.returncode, "error")
    except subprocess.TimeoutExpired:
        outcome = "hangs"
    return outcome, time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("words", nargs="*", help="only mutants whose name has one of these")
    parser.add_argument("--check", action="store_true", help="only look whether each text is there")
    options = parser.parse_args(arguments)
    chosen = [m for m in MUTANTS if not options.words or any(word in m.name for word in options.words)]
    wrong = 0
    if options.check:
        for mutant in chosen:
            try:
                print(f"{place_of(mutant).relative_to(ROOT)}: {mutant.name}")
            except LookupError as error:
                wrong += 1
                print(f"ERROR {error}")
        return int(wrong > 0)
    wrong = sum(not killed for killed in outcomes(chosen))
    print(f"{len(chosen)} mutants, {len(chosen) - wrong} killed")
    return int(wrong > 0)


def outcomes(mutants: Sequence[Mutant]) -> Iterator[bool]:
    """Whether each is killed, as they are tried; a line is printed of each."""
    sound: dict[str, str] = {}
    with copy_of_the_tree() as tree:
        for mutant in mutants:
            verdict, seconds = verdict_of(mutant, tree, sound)
            print(f"{verdict:<18} {seconds:6.1f} s  {mutant.name}", flush=True)
            yield verdict in ("killed", "killed by hanging")


def verdict_of(mutant: Mutant, tree: Path, sound: dict[str, str]) -> tuple[str, float]:
    """sound: what each set of tests says of the tree without a mutant, once it is known."""
    try:
        path = place_of(mutant, tree)
    except LookupError as error:
        print(error)
        return "ERROR: no text", 0.0
    if mutant.tests not in sound:
        sound[mutant.tests], _ = run_tests(tree, mutant.tests)
    if sound[mutant.tests] != "passed":
        return "ERROR: tests fail", 0.0
    original = path.read_text(encoding="utf-8")
    path.write_text(original.replace(mutant.text, mutant.instead), encoding="utf-8")
    try:
        outcome, seconds = run_tests(tree, mutant.tests)
    finally:
        path.write_text(original, encoding="utf-8")
    verdicts = {"passed": "SURVIVED", "failed": "killed", "hangs": "killed by hanging", "error": "ERROR: no tests"}
    return verdicts[outcome], seconds


if __name__ == "__main__":
    sys.exit(main())
