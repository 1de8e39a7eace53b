"""Teachers per second: a plain PyTorch loop, one teacher after the other, against `party.teachers.network_training`.

Both train the same networks for the same epochs on as many rows in batches of the same size. The images are noise: how
long training takes does not depend on what is on them. Seconds are of the clock: on a machine that others use as well
ratios within a row alone can be compared.

`python -m benchmarks torch_teachers`; on the GPU too where there is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from consilium.models.devices import resolve_device, using_device
from consilium.models.network_training import SMALL
from consilium.models.teachers import train_many
from consilium.protocol.teachers import CnnSpec, MlpSpec, NetworkSpec
from docs.figures import figure

ROUNDS = 3
CASES = {
    "CNN of Papernot 2017, 240 images, 5 epochs": (CnnSpec(epochs=5), 240, 784, 10, 4),
    "perceptron, 240 images, 20 epochs": (MlpSpec(), 240, 784, 10, 10),
    "perceptron, 60 rows of 48 features, 20 epochs": (MlpSpec(hidden=32), 60, 48, 2, 50),
}
"""Specification, rows of a teacher, inputs, classes, teachers."""

Rows = tuple[np.ndarray, np.ndarray, list[np.ndarray]]


def plain_loop(spec: NetworkSpec, data: Rows, device: str) -> None:
    """As anybody would write it."""
    x, y, parts = data
    classes = int(y.max()) + 1
    for seed, part in enumerate(parts):
        torch.manual_seed(seed)
        inputs = x.shape[1]
        rows, labels = torch.from_numpy(x[part]).to(device), torch.from_numpy(y[part]).to(device)
        layers: list[nn.Module] = []
        if spec.convolutions:
            side, channels = int(inputs**0.5), spec.convolutions[0]
            rows = rows.reshape(-1, 1, side, side)
            layers += [nn.Conv2d(1, channels, 5), nn.ReLU(), nn.MaxPool2d(2)]
            layers += [nn.Conv2d(channels, 2 * channels, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
            inputs = 2 * channels * (((side - 4) // 2 - 4) // 2) ** 2
        layers += [nn.Linear(inputs, spec.hidden), nn.ReLU(), nn.Linear(spec.hidden, classes)]
        network = nn.Sequential(*layers).to(device)
        optimiser = torch.optim.AdamW(network.parameters(), lr=spec.learning_rate, weight_decay=spec.weight_decay)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, spec.epochs)
        for _ in range(spec.epochs):
            for batch in torch.randperm(len(rows)).to(device).split(spec.batch):
                optimiser.zero_grad()
                functional.cross_entropy(network(rows[batch]), labels[batch]).backward()
                optimiser.step()
            schedule.step()
        network.state_dict()["0.weight"].cpu()  # waits for the GPU


def ours(spec: NetworkSpec, data: Rows, device: str, stacked: bool | None = None) -> None:
    """All teachers in one call."""
    x, y, parts = data
    with using_device("cuda" if device == "cuda" else "cpu"):
        train_many(spec, x, y, parts, range(len(parts)), int(y.max()) + 1, stacked)


def made_up(count: int, inputs: int, classes: int, teachers: int) -> Rows:
    """Rows float32 and labels that mean nothing, and who has which."""
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(count * teachers, inputs)).astype(np.float32)
    y = np.arange(count * teachers) % classes
    return x, y, np.split(np.arange(len(x)), teachers)


def measured(run: Callable[[], None]) -> float:
    """Seconds on the clock."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


WAYS = (
    "plain sequential PyTorch loop, one thread", "the same, two threads", "here, one after the other on one core",
    "here, stacked with `torch.func`",
)  # fmt: skip


def row(name: str, device: str) -> list[str]:
    """Teachers per second of each of WAYS: medians over rounds that alternate between them. Bold: what a party does."""
    spec, count, inputs, classes, teachers = CASES[name]
    if device == "cuda":
        teachers = 250
    data, small = made_up(count, inputs, classes, teachers), made_up(count, inputs, classes, 1)
    threads = torch.get_num_threads()

    def on_threads(number: int) -> None:
        torch.set_num_threads(number)
        plain_loop(spec, data, device)
        torch.set_num_threads(threads)

    runs: tuple[Callable[[], None], ...] = (
        lambda: on_threads(1),
        lambda: on_threads(2),
        lambda: ours(spec, data, device, stacked=False),
        lambda: ours(spec, data, device, stacked=True),
    )
    for stacked in (True, False):
        ours(spec, small, device, stacked)  # whatever is loaded at the first use
    plain_loop(spec, small, device)
    clocks = np.median([[measured(run) for run in runs] for _ in range(ROUNDS)], axis=0)
    rates = [f"{teachers / clock:,.{1 if clock > teachers / 50 else 0}f}" for clock in clocks]
    stack = device == "cuda" or (not spec.of_images and spec.hidden * inputs <= SMALL)
    rates[3 if stack else 2] = f"**{rates[3 if stack else 2]}**"
    return [name + (", GPU" if device == "cuda" else ""), *rates]


def rows() -> Iterator[list[str]]:
    """All cases on each device that there is."""
    for device in ("cpu", *(("cuda",) if resolve_device("auto") == "cuda" else ())):
        for name in CASES:
            yield row(name, device)


def main() -> None:
    """Print the table."""
    name, command, split = "results/network-teachers", "python -m benchmarks.torch_teachers", "rows of noise"
    with figure(name, command, ("", *WAYS), split=split, timings=WAYS) as table:
        for row in rows():
            table.add(*row)


if __name__ == "__main__":
    main()
