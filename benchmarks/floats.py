"""Networks for images trained in bfloat16 beside float32, in one run: processor time, and what they get right.

    python -m benchmarks.floats [--seeds 0 1 2] [--rows 1500]

The same teachers and students twice, in turn, by `CONSILIUM_FLOATS`: convolutional networks of 240 images of MNIST, and
`graph_cnn` on a small pool with a tenth of its labels. Judged on the last thousand test images. One thread; seconds of
the processor, medians over seeds. Where a processor has no matrix units for bfloat16, float32 is what is used, and the
ratio here is above 1. Needs the MNIST files.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from consilium.models.base import Aids
from consilium.models.devices import FLOATS_VARIABLE, training_floats
from consilium.models.teachers import train_many
from consilium.models.train import trainer_of
from consilium.protocol.images import represent
from consilium.protocol.teachers import CnnSpec
from consilium.simulations.datasets.source import load_dataset
from consilium.student.config import StudentSpec

FLOATS = ("float32", "bfloat16")
TEACHERS, ROWS_EACH = 4, 240
STUDENT = StudentSpec.model_validate({"trainer": {"name": "graph_cnn", "looks": 300, "steps": 300, "networks": 2}})

Judge = Callable[[int], float]
"""A seed -> the share of the held-out images that is right."""


def judges(rows: int) -> dict[str, Judge]:
    """What is trained, by its name. rows: of the student's pool."""
    data = load_dataset("mnist", os.environ.get("CONSILIUM_DATA", ""))
    x, y = data.x.astype(np.float32), data.y
    test, truth = x[-1000:], y[-1000:]
    pool, known = x[60_000 : 60_000 + rows], y[60_000 : 60_000 + rows // 10]

    def teachers(seed: int) -> float:
        parts = np.random.default_rng(seed).permutation(60_000)[: TEACHERS * ROWS_EACH].reshape(TEACHERS, ROWS_EACH)
        made = train_many(CnnSpec(), x, y, list(parts), range(TEACHERS), 10)
        return float(np.mean([(teacher.predict(test) == truth).mean() for teacher in made]))

    def student(seed: int) -> float:
        trainer = trainer_of(STUDENT.trainer, Aids(pool[len(known) :], lambda images: represent("scattering", images)))
        model = trainer.fit(pool[: len(known)], known, 10, seed)
        return float((model.predict_proba(test).argmax(axis=1) == truth).mean())

    return {f"{TEACHERS} cnn teachers of {ROWS_EACH} images": teachers, f"graph_cnn, {rows} public images": student}


def measured(judge: Judge, floats: str, seed: int) -> tuple[float, float]:
    """Seconds of the processor, and the share that is right."""
    os.environ[FLOATS_VARIABLE] = floats
    start = time.process_time()
    right = judge(seed)
    return time.process_time() - start, right


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Networks for images in bfloat16 beside float32.")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=1500)
    chosen = parser.parse_args(arguments or [])
    print(f"This processor by itself: {training_floats('cpu')}")
    print("| | float32, s | bfloat16, s | ratio | float32 right, % | bfloat16 right, % |\n|---|---|---|---|---|---|")
    before = os.environ.get(FLOATS_VARIABLE)
    try:
        with threadpool_limits(1):
            for name, judge in judges(chosen.rows).items():
                each = [[measured(judge, floats, seed) for floats in FLOATS] for seed in chosen.seeds]
                first, second = (statistics.median(pair[side][0] for pair in each) for side in (0, 1))
                right = (", ".join(f"{100 * pair[side][1]:.1f}" for pair in each) for side in (0, 1))
                print(
                    f"| {name} | {first:.1f} | {second:.1f} | {second / first:.2f} | {' | '.join(right)} |", flush=True
                )
    finally:
        os.environ.pop(FLOATS_VARIABLE)
        if before is not None:
            os.environ[FLOATS_VARIABLE] = before


if __name__ == "__main__":
    main(sys.argv[1:])
