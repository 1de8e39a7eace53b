"""Teachers per second: a plain PyTorch loop, one teacher after the other, against `party.teachers.network_training`.

Both train the same networks for the same epochs on as many rows in batches of the same size. The images are noise: how
long training takes does not depend on what is on them. CPU seconds are printed beside, since on a machine that others
use as well they alone can be compared.

`python -m benchmarks torch_teachers`; on the GPU too where there is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from consilium.party.teachers.network import train_many
from consilium.party.teachers.network_training import SMALL
from consilium.protocol.node.device import resolve_device, using_device
from consilium.protocol.parties.messages import TeacherSpec

ROUNDS = 3
CASES = {
    "cnn, 240 images of 28x28": (TeacherSpec(model="cnn", epochs=5), 240, 784, 10, 4),
    "mlp, 240 images of 28x28": (TeacherSpec(model="mlp"), 240, 784, 10, 10),
    "mlp, 60 patients of 48 features": (TeacherSpec(model="mlp", hidden=32), 60, 48, 2, 50),
}
"""Specification, rows of a teacher, inputs, classes, teachers."""

Rows = tuple[np.ndarray, np.ndarray, list[np.ndarray]]


def plain_loop(spec: TeacherSpec, data: Rows, device: str) -> None:
    """As anybody would write it."""
    x, y, parts = data
    classes = int(y.max()) + 1
    for seed, part in enumerate(parts):
        torch.manual_seed(seed)
        inputs = x.shape[1]
        rows, labels = torch.from_numpy(x[part]).to(device), torch.from_numpy(y[part]).to(device)
        layers: list[nn.Module] = []
        if spec.model == "cnn":
            side, channels = int(inputs**0.5), spec.channels
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


def ours(spec: TeacherSpec, data: Rows, device: str, stacked: bool | None = None) -> None:
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


def measured(run: Callable[[], None]) -> tuple[float, float]:
    """Seconds on the clock and of the CPU."""
    clock, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - clock, time.process_time() - cpu


def compare(name: str, device: str) -> None:
    """Print the rows of one case: medians over rounds that alternate between the ways."""
    spec, count, inputs, classes, teachers = CASES[name]
    if device == "cuda":
        teachers = 250
    data = made_up(count, inputs, classes, teachers)
    threads = torch.get_num_threads()

    def on_one_thread() -> None:
        torch.set_num_threads(1)
        plain_loop(spec, data, device)
        torch.set_num_threads(threads)

    ways: dict[str, Callable[[], None]] = {"plain loop, 1 thread": on_one_thread}
    if threads > 1:
        ways[f"plain loop, {threads} threads"] = lambda: plain_loop(spec, data, device)
    ways["ours, one after the other"] = lambda: ours(spec, data, device, stacked=False)
    ways["ours, stacked"] = lambda: ours(spec, data, device, stacked=True)
    small = made_up(count, inputs, classes, 1)
    for stacked in (True, False):
        ours(spec, small, device, stacked)  # whatever is loaded at the first use
    plain_loop(spec, small, device)
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, run in ways.items():
            found[way].append(measured(run))
    print(f"{name}; {teachers} teachers, {spec.epochs} epochs, on {device}: medians of {ROUNDS} rounds")
    stack = device == "cuda" or (spec.model == "mlp" and spec.hidden * inputs <= SMALL)
    chosen = "ours, stacked" if stack else "ours, one after the other"
    for way, values in found.items():
        clock, cpu = np.median(np.array(values), axis=0)
        mark = "  <- what a party does" if way == chosen else ""
        print(f"  {way:28} {teachers / clock:8.2f} teachers/s, {1000 * cpu / teachers:8.1f} ms CPU each{mark}")


def main() -> None:
    """Print the tables."""
    devices = ["cpu", *(["cuda"] if resolve_device("auto") == "cuda" else [])]
    for device in devices:
        for name in CASES:
            compare(name, device)


if __name__ == "__main__":
    main()
