"""`consilium study model`: the model of private gradient descent, saved as a student's folder.

A study tries each setting on private rows, at no charge, to be fair to the rival: a model that is handed on may not. So
here clip, step, rounds, factor and intercept are chosen on public rows and their labels alone, with as much noise as
all parties' units would leave; then there is one descent over the private rows, one draw of noise.

Noise follows no seed: it is OpenDP's discrete Gaussian, of the operating system's entropy, on sums that are rounded to
a grid of `GRID` parts of the clip C. Rounding moves two sums of d numbers apart by sqrt(d) / GRID more at most, beside
2 (in units of C), and the noise is larger by the factor 1 + sqrt(d) / GRID, twice what that takes. The rest is more
than the discrete law differs from a rounded continuous one, whose log ratio is of the order of 1 / (z GRID)^2, and than
what float64 loses in a sum."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.privacy import promised
from consilium.models.linear import Linear
from consilium.models.published.model import CARD_FILE, FORMAT, MODEL_FILE, PEOPLES_CARD_FILE, publish
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import replace_text
from consilium.protocol.noise import SystemNoise
from consilium.protocol.strict_json import dumps
from consilium.protocol.versions import versions
from consilium.report.disclosure import epsilon_text
from consilium.report.words import PRIVATE_GRADIENT, upper_first
from consilium.simulations.divide import Case, make_case
from consilium.simulations.methods.base import StatedGuarantee
from consilium.simulations.methods.noisy_average import calibrated
from consilium.simulations.methods.private_gradient import (
    PrivateGradient,
    Search,
    UnitRows,
    choosing_rows,
    descend,
    patient_of_rows,
    rows_of,
)
from consilium.simulations.scenario import Scenario
from consilium.student.run import judged

GRID = 2**20
_HALVES = 0x6D6F64656C


def save_model(scenario: Scenario, seed: int, folder: Path) -> dict[str, Any]:
    """Write the model and its cards into the new folder; returns the card. seed: of the division and of what is tried
    on public rows; the noise does not follow it. Raises OutputExists: the folder is there. ConfigError: nothing finite
    is promised, or it would not hold for this model. DataError, NotEnoughParties: see `divide.make_case`."""
    if folder.exists():
        raise OutputExists(f"{folder} is already there", "Choose another with --out, or remove it")
    case = make_case(scenario, seed, 0.0)
    promise = StatedGuarantee.of(promised(case.config))
    if promise is None or promise.epsilon <= 0:
        raise ConfigError("the scenario promises no epsilon that a model could keep", "Set federation.privacy.epsilon")
    setting, weights = drawn(case, promise)
    folder.mkdir(parents=True)
    classes = len(case.classes)
    model = Linear(weights[:-1].T.copy(), weights[-1].copy(), np.arange(classes), classes)
    published = publish(folder / MODEL_FILE, model, case.config.rows, case.pool_x)
    metrics, tested = judged(published, case.pool, case.pool_x)
    card = {
        "method": PRIVATE_GRADIENT,
        "classes": list(case.classes),
        "columns": [column.model_dump(mode="json") for column in case.config.rows.table],
        "privacy": {**asdict(promise), "noise": "system"},
        "settings": setting,
        "metrics": metrics,
        "test": tested,
        "model": {"file": MODEL_FILE, "format": FORMAT, "kind": published.kind, "sha256": published.sha256},
        "versions": versions(),
    }
    replace_text(folder / PEOPLES_CARD_FILE, "\n\n".join(card_lines(card)) + "\n")
    replace_text(folder / CARD_FILE, dumps(card, indent=2) + "\n")
    return card


def drawn(case: Case, promise: StatedGuarantee) -> tuple[dict[str, float], np.ndarray]:
    """Settings, and one model float64 (inputs + 1, classes), the intercept last. Raises ConfigError."""
    schema, method, chosen = case.config.rows, PrivateGradient(), choosing_rows(case)
    x, y, units = schema.inputs(case.pool_x[chosen]), case.pool_y[chosen], fixed_units(case, promise)
    order = np.random.default_rng([case.seed, _HALVES]).permutation(len(y))
    tried, judge = order[::2], order[1::2]
    # of parties public rows know nothing: they are dealt to as many
    of_row = np.arange(len(tried)) % (units if promise.unit is Unit.PARTY else len(tried))
    public = UnitRows.of(x[tried], y[tried], of_row, len(case.classes))
    search = Search(public, x[judge], y[judge], promise, case.seed, louder=len(public.sizes) / units)
    rounds, setting = method.chosen(search)
    start = Search(public, x, y, promise, case.seed).start
    noise = promise.noise_multiplier(rounds) * (1 + start.size**0.5 / GRID)

    def noisy(total: np.ndarray) -> np.ndarray:
        whole = np.rint(total * GRID).astype(np.int64)
        return (whole + SystemNoise().gaussian(noise * GRID, total.shape)) / GRID

    (model,) = descend(rows_of(case, promise.unit, exact=True), start, [setting], rounds, noisy, units)
    figures = {"rounds": float(rounds), "clip": setting.clip, "step": setting.step, "noise_multiplier": noise}
    return figures, calibrated(model[:-1], x, y)


def fixed_units(case: Case, promise: StatedGuarantee) -> int:
    """n, which sums are divided by: of all units that are not public, also those that are left out, so that it is the
    same in neighbours where one takes another's place. Raises ConfigError: there it is not."""
    data, partition, dataset = case.scenario.data, case.partition, case.dataset
    if promise.neighbouring is not Neighbouring.REPLACE or not data.keeps_all:
        raise ConfigError(
            f"{PRIVATE_GRADIENT} divides by the number of {promise.unit.value} units, which one of them changes here",
            'Set federation.privacy.neighbouring = "replace", and leave out data.unlabelled and duplicates',
        )
    public = np.concatenate([partition.queries, partition.test])
    rows = np.setdiff1d(np.arange(len(dataset.y)), public)
    if promise.unit is Unit.PARTY:  # an owner all of whose patients have public rows elsewhere is no party, and counts
        owners = len(np.unique(dataset.owner[rows]))
        return owners if data.partition == "owners" else len(partition.parties) + partition.left_out
    if promise.unit is Unit.RECORD:
        return len(rows)
    return np.unique(np.stack([dataset.owner[rows], patient_of_rows(case)[rows]]), axis=1).shape[1]


def card_lines(card: dict[str, Any]) -> list[str]:
    """The card for people, in paragraphs."""
    privacy, settings, model, metrics = (card[name] for name in ("privacy", "settings", "model", "metrics"))
    whose = {"party": "a whole party", "patient": "a patient's rows at one party", "record": "a record"}
    quality = "Nobody has measured it: there were no labelled test rows."
    if metrics is not None:
        area = "" if metrics["auc"] is None else f", AUC {metrics['auc']:.4f}"
        quality = f"On {card['test']['rows']} labelled public rows: accuracy {metrics['accuracy']:.4f}{area}."
    return [
        f"# Model of {PRIVATE_GRADIENT}",
        f"Method: {settings['rounds']:.0f} rounds of noisy sums of clipped gradients over all parties' rows (Abadi et"
        f" al. 2016, without sampling): logistic regression of {len(card['classes'])} classes,"
        f" {', '.join(card['classes'])}. No teacher voted.",
        f"Guarantee: epsilon at most {epsilon_text(privacy['epsilon'])} at delta {privacy['delta']:g}, towards whoever"
        f" sees the model or what is computed from it. Unit: {whose[privacy['unit']]}; neighbouring: its data is"
        " replaced by other data. The model is one draw of noise, from the operating system's entropy, and follows no"
        " seed: the command draws another one each time, and the epsilons of all that are handed on add up.",
        "Towards whoever ran the command no epsilon is stated: the rows of all parties were in one program.",
        f"Its settings (clip {settings['clip']:g}, step {settings['step']:g}, rounds, factor, intercept) were chosen on"
        " the labels of the public rows, which cost no epsilon. The guarantee says nothing about people in these rows.",
        f"{quality} Nobody has validated it for decisions about a person.",
        f"{model['file']} ({model['format']}, {model['kind']}), SHA-256 {model['sha256']}. Numbers only; loading it"
        " runs no code. Use it with: consilium predict FOLDER ROWS.csv",
    ]


def lines_of(card: dict[str, Any], folder: Path) -> list[str]:
    """For the terminal."""
    privacy, metrics = card["privacy"], card["metrics"] or {}
    quality = "".join(f"{name} {metrics[name]:.3f}; " for name in ("accuracy", "auc") if metrics.get(name) is not None)
    promise = f"epsilon at most {epsilon_text(privacy['epsilon'])} at delta {privacy['delta']:g}, a {privacy['unit']}"
    return [f"{upper_first(card['method'])}: {quality}{promise}", f"model: {folder}"]
