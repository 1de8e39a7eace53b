"""The papers by name: what they describe, whose figures they give, what they refuse, and that they go on. And their
students: the settings of PATE-G as published, what its parts compute, and that all learn."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from consilium.accounting.mechanisms import Confident, Immutable
from consilium.models.base import Model
from consilium.protocol.errors import ConfigError, DataError, OutputExists
from consilium.protocol.label_source import NO_LABEL, no_progress
from consilium.protocol.noise import SeededNoise
from consilium.report.progress import Display
from consilium.simulations.papers import ORDER, run, semi_supervised
from consilium.simulations.papers.description import (
    Choice,
    CnnStudent,
    FeatureMatchingStudent,
    PaperRow,
    PaperStudent,
    VatStudent,
    content_digest,
    load_paper,
    train,
)
from consilium.simulations.papers.measure import (
    Images,
    at_once,
    costs,
    drawn_by_the_script,
    measure,
    queries_of,
    released,
)
from consilium.simulations.papers.run import PaperRun, as_lines
from consilium.simulations.papers.semi_supervised import Duel, FlooredAdam
from consilium.simulations.shipped import Shipped
from tests.command_line import consilium
from tests.models.digits import digits

LNMAX = {"name": "lnmax", "gamma": 0.05}
TEST = 9_060


def idx(array: np.ndarray) -> bytes:
    header = b"\0\0\x08" + bytes([array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return gzip.compress(header + array.astype(np.uint8).tobytes(), 1)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images of two bars for each of ten classes, and with votes on them."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "mnist").mkdir()
    generator = np.random.default_rng(0)
    for part, count in (("train", 500), ("t10k", TEST)):
        y = np.arange(count) % 10
        images = np.zeros((count, 28, 28), dtype=np.uint8)
        for row in range(4):
            images[np.arange(count), 2 * y + row, 3:25] = generator.integers(150, 256, (count, 22))
        (folder / "mnist" / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(images))
        (folder / "mnist" / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx(y))
    y = np.arange(9000) % 10
    votes = generator.multinomial(50, [0.1] * 10, size=9000)
    votes[np.arange(9000), y] += 200
    np.savez(folder / "pate2018_votes_mnist.npz", votes=votes.astype(np.int16))
    np.savez(folder / "pate2017_mnist_student.npz", labels_lap20=y.astype(np.uint8), indices100=np.arange(100))
    return folder


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})


@pytest.fixture
def here(made_up: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The shipped descriptions with the checksums of the made-up files, where the command finds them."""
    monkeypatch.setenv("CONSILIUM_DATA", str(made_up))
    changed = {}
    shipped = Shipped.files
    for name, path in Shipped.PAPER.files().items():
        text = path.read_text(encoding="utf-8")
        for file in load_paper(path).files:
            if file.sha256:
                text = text.replace(file.sha256, content_digest(made_up / file.name))
        changed[name] = tmp_path / f"{name}.toml"
        changed[name].write_text(text, encoding="utf-8")
    monkeypatch.setattr(Shipped, "files", lambda kind: changed if kind is Shipped.PAPER else shipped(kind))
    return changed


def row(**keys: object) -> PaperRow:
    return PaperRow.model_validate({"name": "x", "title": "x", "mechanism": LNMAX, **keys})


@pytest.mark.parametrize("name", ["pate-2017", "pate-2018", "near-zero"])
def test_a_fast_run_from_votes_to_the_table(name: str, here: dict[str, Path], tmp_path: Path) -> None:
    """Every row that is not extra: what the paper prints stands beside a figure of ours, and no row is lost."""
    results = PaperRun(here[name], Choice(fast=True), tmp_path / "out").run(Display())
    paper = load_paper(here[name])
    titles = {item["title"] for item in (*results["rows"], *results["absent"])}
    assert titles == {each.title for each in (*paper.rows, *paper.absent) if not getattr(each, "extra", False)}
    for measured in results["rows"]:
        assert set(measured["paper"]) <= set(measured["ours"]), measured["name"]
        assert measured["ours"].get("student", [0])[0] <= 1
    assert json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8")) == results
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    lines = "\n".join(as_lines(results))
    for printed in ("98.00", "8.03") if name == "pate-2017" else ("98.5",) if name == "pate-2018" else ("63.5", "97.8"):
        assert printed in page and printed in lines
    assert "train_32x32.mat is not there" in lines  # of SVHN
    assert "Its figures mean nothing" in page


def test_students_of_a_fast_run_learn(here: dict[str, Path], tmp_path: Path) -> None:
    """Made-up images are easy. Control: guessing is right on a tenth."""
    chosen = Choice(fast=True, rows=("truth-9000",), seeds=(1,))
    display, told = Display(), []
    display.update = lambda stage, done, total: told.append((stage, done, total))
    (measured,) = PaperRun(here["near-zero"], chosen, tmp_path / "out").run(display)["rows"]
    assert told[-1] == ("rows", 1, 1)
    assert measured["ours"]["student"][0] > 0.3
    low, high = measured["ours"]["interval"]
    assert low < measured["ours"]["student"][0] <= high


def test_an_interval_is_over_seeds_and_images() -> None:
    """Seeds that judge the same images by the same student are one; with images of their own they say more."""
    right = np.random.default_rng(0).random(3000) < 0.9
    alone = run._interval([{str(i): int(right[i]) for i in range(1000)}])
    copies = run._interval([{str(i): int(right[i]) for i in range(1000)}] * 3)
    apart = run._interval([{str(i): int(right[i]) for i in range(k, k + 1000)} for k in (0, 1000, 2000)])
    assert copies == pytest.approx(alone, abs=0.003)
    assert apart[0] < np.mean(right) < apart[1]
    worse = run._interval([{str(i): int(right[i] and i % (5 + k) > 0) for i in range(1000)} for k in range(3)])
    assert worse[1] - worse[0] > 1.3 * (alone[1] - alone[0])  # seeds differ


def test_it_goes_on_where_it_was_stopped(
    here: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done is not done again; other rows and seeds join the folder, another paper does not."""
    done: list[str] = []
    work = run.work

    def stopped(job: run.Job, *_: object) -> None:
        if len(done) == 1:
            raise KeyboardInterrupt
        done.append(job[0][0].name)
        work(job)

    monkeypatch.setattr(run, "work", stopped)
    chosen, folder = Choice(fast=True, rows=("lnmax-100", "clean-9000")), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        PaperRun(here["near-zero"], chosen, folder).run(Display())
    monkeypatch.setattr(run, "work", lambda job, *_: (done.append(job[0][0].name), work(job)))
    first = PaperRun(here["near-zero"], chosen, folder).run(Display())
    assert done == ["lnmax-100", "clean-9000"]
    assert PaperRun(here["near-zero"], chosen, folder).run(Display()) == first
    more = PaperRun(here["near-zero"], chosen.model_copy(update={"seeds": (0, 1)}), folder).run(Display())
    assert done == ["lnmax-100", "clean-9000"] * 2
    assert [len(each["ours"]["each"]) for each in more["rows"]] == [2, 2]
    with pytest.raises(ConfigError, match="holds a run of near-zero"):
        PaperRun(here["pate-2018"], Choice(fast=True), folder).run(Display())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    with pytest.raises(OutputExists, match="no run of a paper"):
        PaperRun(here["pate-2018"], Choice(fast=True), tmp_path / "other").run(Display())


def test_the_command(here: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    arguments = ["--set", "fast=true", "--set", 'rows=["published-votes"]', "--format", "json", "--quiet"]
    done = consilium("run", "pate-2017", *arguments, "--seed", "3", "--out", folder)
    assert done.exit_code == 0, done.output
    results = done.json()
    assert (results["seeds"], [each["name"] for each in results["rows"]]) == ([3], ["published-votes"])
    assert (folder / ORDER).exists()
    assert consilium("run", "pate-2017", *arguments, "--seed", "3", "--out", folder).json() == results
    assert "near-zero " in consilium("scenarios").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "rows=['nothing']"], r"there is no 'nothing'. Rows are teachers, published-votes, mnist-100"),
        (["--set", "epochs=3"], "epochs"),
        (["--engine", "ray"], "--engine is of no use for a paper"),
    ],
)
def test_what_the_command_refuses(arguments: list[str], message: str, here: dict[str, Path]) -> None:
    done = consilium("run", "pate-2017", *arguments)
    assert done.exit_code == 2 and re.search(message, done.stderr), done.output


def test_a_file_that_is_absent_or_another(here: dict[str, Path], made_up: Path, tmp_path: Path) -> None:
    """The error says which, its checksum and where to get it. Control: the folder as it is."""
    path = here["pate-2018"]
    chosen = Choice(fast=True, rows=("mnist-confident",))
    assert PaperRun(path, chosen, tmp_path / "out").rows
    text = path.read_text(encoding="utf-8")
    images = load_paper(path).files[2]
    assert "t10k-images" in images.name
    path.write_text(text.replace(images.sha256, "0" * 64), encoding="utf-8")
    with pytest.raises(DataError, match=f"{images.name} has another content: SHA-256 {images.sha256} in place of 00+"):
        PaperRun(path, chosen, tmp_path / "out")
    path.write_text(text.replace(images.name, "mnist/none.gz"), encoding="utf-8")
    with pytest.raises(DataError, match=rf"none.gz is not there .*{images.sha256}.*Get it from https://.*data.path"):
        PaperRun(path, chosen, tmp_path / "out")


@pytest.mark.parametrize("keys", [{}, {"shuffled": True}, {"pool": 7000, "judges": 2000}])
@pytest.mark.parametrize("choice", ["first", "balanced"])
def test_no_row_that_judges_is_asked_or_seen(
    keys: dict, choice: str, made_up: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the student is judged on other rows than it saw, with and without labels."""
    from consilium.simulations.papers import measure as module

    images = Images.of("mnist", made_up)
    images.test[:, 0] = np.arange(TEST)  # so that a row can be known again
    seen, judged = [], []

    class Model:
        def predict_proba(self, x: np.ndarray) -> np.ndarray:
            judged.append(x[:, 0].astype(int))
            return np.eye(10)[np.zeros(len(x), dtype=int)]

    def train(x: np.ndarray, y: np.ndarray, rest: np.ndarray, *_: object) -> Model:
        seen.append((x[:, 0].astype(int), y, rest[:, 0].astype(int)))
        return Model()

    monkeypatch.setattr(module, "train", train)
    keys = {"pool": 8000, "judges": 1000, **keys, "queries": 100, "student": {"name": "feature_matching"}}
    found = measure(row(choice=choice, **keys), 0, images, tmp_path, made_up, no_progress)
    (asked, labels, rest), (judges,) = seen[0], judged
    assert len(asked) == 100 and len({*asked, *rest}) == keys["pool"] and len({*judges}) == keys["judges"]
    assert not {*judges} & {*asked, *rest}
    assert found["student"] == (images.test_y[judges] == 0).mean()
    assert (labels == images.test_y[asked]).mean() == found["labels"] > 0.9
    assert np.bincount(images.test_y[asked]).tolist() == [10] * 10 or choice == "first"
    assert (np.sort(judges) != np.arange(TEST - keys["judges"], TEST)).any() == keys.get("shuffled", False)


def test_costs_are_those_of_the_papers(shared_data: Path) -> None:
    """On the published votes: 2.04 of the first hundred by eight moments, 1.97 of the Confident row; and what is not
    private has the claim of its paper, and no worst case."""
    votes = np.load(shared_data / "pate2018_votes_mnist.npz")["votes"].astype(np.int64)
    first = costs(row().mechanism, votes[:100], np.ones(100, dtype=bool), 1e-5)  # type: ignore[arg-type]
    assert first["epsilon"] == pytest.approx(2.043, abs=1e-3) and first["worst"] > first["epsilon"] / 2
    confident = Confident(threshold=200, sigma1=150.0, sigma2=40.0)
    known = released(confident, votes[:640], SeededNoise(0)) != NO_LABEL
    assert known.sum() == pytest.approx(286, abs=30)
    assert costs(confident, votes[:640], known, 1e-5)["epsilon"] == pytest.approx(1.97, abs=0.15)
    immutable = Immutable(gamma=1e-10, constant=10**12)
    assert costs(immutable, votes, np.ones(9000, dtype=bool), 1e-5) == {
        "epsilon": pytest.approx(0.023, abs=1e-3), "unbounded": True,
    }  # fmt: skip


def test_the_published_indices_are_drawn_by_lot_from_the_first_8000(shared_data: Path) -> None:
    truth = Images.of("mnist", shared_data).test_y
    votes = np.load(shared_data / "pate2018_votes_mnist.npz")["votes"].astype(np.int64)
    published = np.load(shared_data / "pate2017_mnist_student.npz")
    hundred, thousand = (drawn_by_the_script(truth[:8000], count) for count in (100, 1000))
    assert (hundred == published["indices100"]).all()
    by_rows = [queries_of(row(choice="script", pool=8000, queries=count), np.arange(8000), truth, 9000)
               for count in (100, 1000)]  # fmt: skip
    assert all((a == b).all() for a, b in zip(by_rows, (hundred, thousand), strict=True))
    epsilons = [costs(row().mechanism, votes[rows], rows >= 0, 1e-5)["epsilon"] for rows in (hundred, thousand)]  # type: ignore[arg-type]
    found = {
        "classes": np.bincount(truth[hundred], minlength=10).tolist(),  # meant to be ten of each
        "right of 100": int((published["labels_lap20"][hundred] == truth[hundred]).sum()),
        "rows of 1,000": len(np.unique(thousand)),
        "right of 1,000": int((published["labels_lap20"][thousand] == truth[thousand]).sum()),
        "epsilons": [f"{value:.2f}" for value in epsilons],
    }
    assert found == {
        "classes": [13, 13, 13, 10, 15, 7, 8, 4, 8, 9],
        "right of 100": 98,
        "rows of 1,000": 1000,
        "right of 1,000": 929,
        "epsilons": ["1.96", "7.10"],
    }


def test_a_fast_row_is_small_and_another_one() -> None:
    """A result of it is never taken for one of the row."""
    large = load_paper(Shipped.PAPER.files()["pate-2017"]).chosen(["script-100"])[0]
    small = at_once(large)
    assert (small.pool, small.queries, small.student.epochs) == (300, 60, 1)  # type: ignore[union-attr]
    assert small.digest != large.digest
    assert large.model_copy(update={"title": ""}).digest == large.digest


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks and batches of a tenth of their size or less, so that a step takes a millisecond."""
    monkeypatch.setattr(semi_supervised, "HIDDEN", (64, 32, 32))
    monkeypatch.setattr(semi_supervised, "WIDTH", 32)
    monkeypatch.setattr(semi_supervised, "BATCH", 20)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_adam_by_hand() -> None:
    """Two steps of one number with gradients 2 and -1e-5: the floor counts where gradients are small."""
    x = torch.tensor([1.0, 1.0], requires_grad=True)
    adam, slopes = FlooredAdam([x, torch.zeros(3)]), torch.tensor([2.0, 1e-5])
    assert len(adam.parameters) == 1  # what is not learned is left alone
    for _ in range(2):
        adam.step((x * slopes).sum())
    # of a constant gradient g each step is .003 g / sqrt(g^2 + 1e-8)
    expected = 1 - 2 * 0.003 * slopes / torch.sqrt(slopes**2 + 1e-8)
    np.testing.assert_allclose(x.detach(), expected, rtol=1e-6)


def test_the_generator_matches_means_and_the_discriminator_tells_its_images_apart(small: None) -> None:
    """Also images that have no label. Control: before the first step neither is so."""
    x, y = digits()
    images = torch.from_numpy(x[:1000] / 16).float()
    duel = Duel(images, torch.from_numpy(y[:20]), 10, generator())
    duel.first_look()

    def apart() -> tuple[float, float]:
        with torch.no_grad():
            made = duel.maker(torch.rand(500, 100, generator=generator(2)))
            real, false = (torch.logsumexp(duel.discriminator(some), dim=1).mean() for some in (images[20:], made))
            return float((made.mean(dim=0) - images.mean(dim=0)).square().mean()), float(real - false)

    before = apart()
    for _ in range(100):
        duel.step()
    after = apart()
    assert after[0] < before[0] / 4
    assert abs(before[1]) < 0.3
    assert after[1] > 1


STUDENTS = [
    CnnStudent(channels=12, steps=150, settled=0),
    VatStudent(channels=12, steps=150, settled=0),
    FeatureMatchingStudent(epochs=10),
]


def learnt(spec: PaperStudent, labelled: int, rest: int, seed: int = 0, few: int = 0) -> Model:
    """few: steps or epochs, where it need not learn well."""
    x, y = digits()
    if few:
        spec = spec.model_copy(update={"epochs" if "epochs" in type(spec).model_fields else "steps": few})
    return train(x[:labelled], y[:labelled], x[labelled : labelled + rest], 10, spec, seed, no_progress)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("spec", STUDENTS, ids=lambda spec: spec.name)
class TestTraining:
    def test_learns(self, spec: PaperStudent) -> None:
        """Processors add in other orders, and some in 16 bits; by chance .1."""
        x, y = digits()
        model = learnt(spec, 300, 700)
        assert (model.predict_proba(x[1200:]).argmax(axis=1) == y[1200:]).mean() > 0.7

    def test_the_seed_decides(self, spec: PaperStudent) -> None:
        first, again, other = (learnt(spec, 30, 60, seed, few=2).predict_proba(digits()[0][:50]) for seed in (4, 4, 5))
        assert (first == again).all()
        assert (first != other).any()

    @pytest.mark.parametrize(("labelled", "rest"), [(2, 0), (30, 1)])
    def test_few_rows(self, spec: PaperStudent, labelled: int, rest: int) -> None:
        x = digits()[0]
        found = learnt(spec, labelled, rest, few=2).predict_proba(x[:7])
        assert found.shape == (7, 10)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)


def test_unlabelled_images_help() -> None:
    """Two labels of each digit and 1,180 images without one; on 597 others."""
    x, y = digits()
    rows = np.random.default_rng(0).permutation(1200)
    labelled = np.concatenate([rows[y[rows] == digit][:2] for digit in range(10)])
    rest = np.setdiff1d(rows, labelled)
    right = []
    for kind in (VatStudent, CnnStudent):
        spec = kind(steps=200, augment="none", settled=0)
        model = train(x[labelled], y[labelled], x[rest], 10, spec, 0, no_progress)
        right.append((model.predict_proba(x[1200:]).argmax(axis=1) == y[1200:]).mean())
    assert right[0] > right[1] + 0.005
