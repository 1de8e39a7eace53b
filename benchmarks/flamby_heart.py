"""FLamby's Heart Disease benchmark: its split, inputs and settings, its published figures beside ours.

Ogier du Terrail et al. 2022, "FLamby", NeurIPS 2022 (arXiv 2210.04620), and the result files of its repository, seeds
42 to 46: accuracy at 0.5 on "Pooled Test", the test rows of all four hospitals, and the mean over the four hospitals'
own test rows, which is all that it gives for privacy. Here: twenty seeds, so that the mean is known better than five
tell it.

Its protocol: columns slope, ca and thal are dropped, then rows with a missing value (740 rows stay); one-hot for cp and
restecg; a fixed split of 66 to 34 in each hospital, by label. Inputs are scaled by each hospital's own training rows;
of the pooled model, and of "Pooled Test" whatever the model, by all training rows. Logistic regression from a start by
lot (torch's); batches of 4; pooled and alone: Adam, rate .001, 50 epochs; federated: 15 rounds of 100 steps, rate .001.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.model_selection import train_test_split

from consilium.accounting.units import Neighbouring
from consilium.simulations.datasets.folder import data_folder
from consilium.simulations.methods.averaging import AveragedNetwork, LocalTraining, Rounds, TrainingRows, federate
from consilium.simulations.methods.averaging_privacy import PartyPrivacy

SEEDS = range(20)
KEPT, ONE_HOT = 10, (2, 6)
RATE, BATCH, EPOCHS, ROUNDS, STEPS = 0.001, 4, 50, 15, 100
NORM = 1.1
"""To which FLamby clips the gradient of one row."""
DELTA = 1e-3


@dataclass(frozen=True)
class Hospital:
    """x, test_x: inputs scaled by its own training rows; pooled_x, pooled_test_x: by those of all."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    pooled_x: np.ndarray
    pooled_test_x: np.ndarray


def hospitals() -> list[Hospital]:
    """The four, as FLamby has them."""
    with np.load(data_folder() / "heart_uci.npz") as file:
        raw, y, owner = file["X"][:, :KEPT].astype(np.float64), (file["num"] > 0).astype(np.int64), file["hospital"]
    whole = ~np.isnan(raw).any(axis=1)
    raw, y, owner = raw[whole], y[whole], owner[whole]
    plain = [column for column in range(KEPT) if column not in ONE_HOT]
    levels = [(raw[:, [column]] == np.unique(raw[:, column])[1:]).astype(np.float64) for column in ONE_HOT]
    x = np.concatenate([raw[:, plain], *levels], axis=1)
    train, test = [], []
    for hospital in range(4):
        mine = np.flatnonzero(owner == hospital)
        stratify = y[mine] if np.bincount(y[mine], minlength=2).min() > 2 else None
        parts = train_test_split(mine, test_size=1 - 0.66, train_size=0.66, random_state=43, stratify=stratify)
        train.append(np.sort(parts[0]))
        test.append(np.sort(parts[1]))
    everyone = scaled(x[np.concatenate(train)])
    found = []
    for mine, held_out in zip(train, test, strict=True):
        own = scaled(x[mine])
        found.append(
            Hospital(own(x[mine]), y[mine], own(x[held_out]), y[held_out], everyone(x[mine]), everyone(x[held_out]))
        )
    return found


def scaled(rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Centres and scales as torch does, whose deviation divides by n - 1."""
    mean, deviation = rows.mean(axis=0), rows.std(axis=0, ddof=1)
    return lambda x: (x - mean) / (deviation + 1e-9)


def start(inputs: int, generator: np.random.Generator) -> np.ndarray:
    """Weights and bias as torch starts a linear layer."""
    return generator.uniform(-1, 1, inputs + 1) / np.sqrt(inputs)


def with_adam(x: np.ndarray, y: np.ndarray, model: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """One model on these rows."""
    rows, first, second, step = with_bias(x), np.zeros_like(model), np.zeros_like(model), 0
    for _epoch in range(EPOCHS):
        order = generator.permutation(len(x))
        for at in range(0, len(x), BATCH):
            chosen, step = order[at : at + BATCH], step + 1
            gradient = rows[chosen].T @ (expit(rows[chosen] @ model) - y[chosen]) / len(chosen)
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            model = model - RATE * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return model


def with_bias(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def averaged(
    parties: list[Hospital], model: np.ndarray, seed: int, privacy: PartyPrivacy | None, mu: float | None = None
) -> np.ndarray:
    """Flower's FedAvg, or FedProx. Softmax of two classes at half the rate is their logistic regression, step by step:
    the difference of the two scores moves by twice what one of them does."""
    inputs = len(model) - 1
    network = AveragedNetwork.of(inputs, 2, hidden=0)
    two = np.stack([-model / 2, model / 2], axis=1).ravel()
    rows = [TrainingRows(party.x.astype(np.float32), party.y) for party in parties]
    training = LocalTraining(RATE / 2, BATCH, steps=STEPS)
    found = federate(rows, network, training, Rounds(ROUNDS, proximal_mu=mu), seed, privacy, two).model
    return found.reshape(inputs + 1, 2) @ [-1.0, 1.0]


def batches(rows: int) -> int:
    """In a pass."""
    return -(-rows // BATCH)


@functools.cache
def noise_of(rows: int, epsilon: float) -> float:
    """Noise multiplier for FLamby's own count of what is released: one pass a round."""

    def excess(noise: float) -> float:
        return spent(1 / batches(rows), noise, ROUNDS * batches(rows)) - epsilon

    return float(brentq(excess, 1.0, 50.0))  # pyright: ignore[reportArgumentType]


def spent(rate: float, noise: float, steps: int) -> float:
    """epsilon at DELTA of so many noisy steps, each with every row by lot at this rate."""
    accountant = RdpAccountant(orders=range(2, 200))
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps))
    return accountant.get_epsilon(DELTA)


def with_noisy_rows(parties: list[Hospital], model: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """FLamby's private FedAvg: a row's gradient is clipped and each step has noise. Not Flower's, which has whole
    parties as its unit."""
    weights = np.array([len(party.y) for party in parties], dtype=np.float64)
    noises = [noise_of(len(party.y), 1.0) for party in parties]
    for _round in range(ROUNDS):
        found = []
        for party, noise in zip(parties, noises, strict=True):
            own, rows = model.copy(), with_bias(party.x)
            passes = -(-STEPS * BATCH // len(rows))
            order = np.concatenate([generator.permutation(len(rows)) for _pass in range(passes)])
            divisor = len(rows) // batches(len(rows))  # Opacus's expected batch, rounded down
            for at in range(0, STEPS * BATCH, BATCH):
                chosen = order[at : at + BATCH]
                gradients = rows[chosen] * (expit(rows[chosen] @ own) - party.y[chosen])[:, None]
                lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
                total = (gradients * np.minimum(1, NORM / (lengths + 1e-6))).sum(axis=0)
                own -= RATE * (total + noise * NORM * generator.standard_normal(len(own))) / divisor
            found.append(own)
        model = weights / weights.sum() @ np.stack(found)
    return model


def pooled_accuracy(parties: list[Hospital], model: np.ndarray) -> float:
    """On "Pooled Test"."""
    x = np.concatenate([party.pooled_test_x for party in parties])
    return float(((with_bias(x) @ model > 0) == np.concatenate([party.test_y for party in parties])).mean())


def mean_accuracy(parties: list[Hospital], model: np.ndarray) -> float:
    """Mean over the hospitals' own test rows."""
    return float(np.mean([((with_bias(party.test_x) @ model > 0) == party.test_y).mean() for party in parties]))


Run = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]
"""From a first model, a seed and its generator to the last model."""


def on_one(x: np.ndarray, y: np.ndarray) -> Run:
    return lambda model, _seed, generator: with_adam(x, y, model, generator)


def by_flower(parties: list[Hospital], mu: float | None = None, epsilon: float = 0.0, clip: float = 0.0) -> Run:
    privacy = PartyPrivacy(epsilon, DELTA, Neighbouring.ADD_OR_REMOVE, clip) if epsilon else None
    return lambda model, seed, _generator: averaged(parties, model, seed, privacy, mu)


def main() -> None:
    """Print the table."""
    parties = hospitals()
    print("training / test rows", " ".join(f"{len(each.y)}/{len(each.test_y)}" for each in parties))
    pooled = on_one(np.concatenate([each.pooled_x for each in parties]), np.concatenate([each.y for each in parties]))
    alone = [on_one(each.x, each.y) for each in parties]
    rows: list[tuple[str, str, str, Run]] = [
        ("pooled", ".795 ± .002", ".735", pooled),
        ("hospital 0 alone", ".784 ± .006", ".722", alone[0]),
        ("hospital 1 alone", ".727 ± .012", ".629", alone[1]),
        ("hospital 2 alone", ".483 ± .040", ".567", alone[2]),
        ("hospital 3 alone", ".611 ± .035", ".637", alone[3]),
        ("FedAvg", ".748 ± .024", ".685, .712", by_flower(parties)),
        ("FedProx, mu .01", ".748 ± .024", ".685", by_flower(parties, mu=0.01)),
        ("FedAvg, rows, epsilon 1", "", ".702", lambda model, _, lots: with_noisy_rows(parties, model, lots)),
        ("FedAvg, hospitals, epsilon 1, C .01", "", "", by_flower(parties, epsilon=1, clip=0.01)),
        ("FedAvg, hospitals, epsilon 1, C .1", "", "", by_flower(parties, epsilon=1, clip=0.1)),
        ("FedAvg, hospitals, epsilon 10, C .1", "", "", by_flower(parties, epsilon=10, clip=0.1)),
        ("FedAvg, hospitals, epsilon 100, C .1", "", "", by_flower(parties, epsilon=100, clip=0.1)),
    ]
    print(f"{'':38}{'Pooled Test':>14}{'published':>14}{'mean of hospitals':>20}{'published':>12}")
    for name, published, published_mean, run in rows:
        models = []
        for seed in SEEDS:
            generator = np.random.default_rng([seed, 42])
            models.append(run(start(parties[0].x.shape[1], generator), seed, generator))
        whole = [pooled_accuracy(parties, model) for model in models]
        own = [mean_accuracy(parties, model) for model in models]
        print(f"{name:38}{spread(whole):>14}{published:>14}{spread(own):>20}{published_mean:>12}", flush=True)
    sizes = [len(each.y) for each in parties]
    noises = [noise_of(size, 1.0) for size in sizes]
    real = [spent(1 / batches(size), noise, ROUNDS * STEPS) for size, noise in zip(sizes, noises, strict=True)]
    print("rows, epsilon 1: noise multipliers", " ".join(f"{noise:.2f}" for noise in noises))
    print("epsilon of all steps that are taken, were their rows drawn by lot", " ".join(f"{each:.2f}" for each in real))


def spread(values: list[float]) -> str:
    """Mean and standard deviation over seeds."""
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}"


if __name__ == "__main__":
    main()
