"""What a step takes is drawn while the step before is learnt from, with the numbers that it would have had."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest
import torch

from consilium.models.images.loop import DrawnAhead


class Draws:
    """A method that draws three numbers; `drawn` is set once it has done so `most` times."""

    def __init__(self, generator: torch.Generator, most: int = 1, fails: bool = False) -> None:
        self.parts: dict[str, Any] = {}
        self.decay = 0.0
        self.generator, self.most, self.fails = generator, most, fails
        self.count, self.drawn = 0, threading.Event()
        self.threads: list[int] = []

    def draw(self) -> tuple[torch.Tensor, ...]:
        if self.fails:
            raise ZeroDivisionError
        self.threads.append(torch.get_num_threads())
        numbers = torch.rand(3, generator=self.generator)
        self.count += 1
        if self.count == self.most:
            self.drawn.set()
        return (numbers,)

    def update(self, drawn: tuple[torch.Tensor, ...], done: float) -> None: ...


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def test_the_same_numbers_and_states_as_one_after_the_other() -> None:
    plain, states = Draws(generator()), []
    numbers = []
    for _ in range(5):
        numbers += plain.draw()
        states.append(plain.generator.get_state())
    method = Draws(generator())
    with closing(DrawnAhead(method, method.generator)) as ahead:
        assert torch.equal(ahead.state, generator().get_state())
        for expected, state in zip(numbers, states, strict=True):
            (found,) = ahead.take()
            assert torch.equal(found, expected) and torch.equal(ahead.state, state)


def test_the_next_is_drawn_while_the_last_is_used() -> None:
    method = Draws(generator(), most=2)
    with closing(DrawnAhead(method, method.generator)) as ahead:
        ahead.take()
        assert method.drawn.wait(60)  # nobody has asked for it yet
    assert method.count == 2
    assert set(method.threads) == {torch.get_num_threads()}


def test_what_drawing_raises_is_raised_where_it_is_taken() -> None:
    method = Draws(generator(), fails=True)
    with closing(DrawnAhead(method, method.generator)) as ahead, pytest.raises(ZeroDivisionError):
        ahead.take()
