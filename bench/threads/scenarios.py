"""Trainings of more than one thread, each as rounds that are the same every time: what a round
computes depends on its number alone, however its threads take turns. A round gives the bits of what
was trained.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Open = Callable[..., Any]  # (model, optimizer, **options) -> a nanny, or what stands for none
WIDTH = 32
STEPS = 40  # of a round


class Turned(nn.Module):
    """A layer whose output's elements lie apart: the monitor asks torch of it, and lets go of
    Python's lock meanwhile.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x)).t()


class Nobody:
    """In the place of a nanny."""

    def step(self, _number: int) -> Any:
        return contextlib.nullcontext()

    def close(self) -> None:
        pass


def unwatched(*_args: Any, **_options: Any) -> Nobody:
    return Nobody()


def made(seed: int, blocks: int = 3) -> tuple[nn.Sequential, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = nn.Sequential(*(Turned() for _ in range(blocks)))
    kind = (torch.optim.SGD, torch.optim.AdamW)[seed % 2]
    return model, kind(model.parameters(), lr=1e-3)


def batches(seed: int, steps: int = STEPS) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield torch.randn(WIDTH, WIDTH, generator=generator)


def train(model: nn.Module, optimizer: Any, nanny: Any, data: Any, number: int) -> None:
    """With blocks in even rounds; the parameters are clipped in every third."""
    for step, x in enumerate(data):
        with nanny.step(step) if number % 2 == 0 else contextlib.nullcontext():
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            if number % 3 == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()


def bits(*models: nn.Module) -> bytes:
    digest = hashlib.sha256()
    for model in models:
        for parameter in model.parameters():
            digest.update(parameter.detach().numpy().tobytes())
    return digest.digest()


def together(*calls: Callable[[], None]) -> None:
    """Each in a thread of its own; what one of them raises is raised here."""
    errors: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in calls]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]


# --- the scenarios: (number, open) -> bits ---


def two_models(number: int, watch: Open) -> bytes:
    """Each is trained in a thread of its own. In every third round only the first is watched."""
    pairs = [made(2 * number + each) for each in range(2)]

    def one(which: int) -> None:
        model, optimizer = pairs[which]
        opens = watch if which == 0 or number % 3 else unwatched
        nanny = opens(model, optimizer)
        train(model, optimizer, nanny, batches(7 * number + which), number)
        nanny.close()

    together(lambda: one(0), lambda: one(1))
    return bits(*(model for model, _ in pairs))


def evaluation(number: int, watch: Open) -> bytes:
    """Another thread asks the model that is trained, without gradients."""
    model, optimizer = made(number)
    nanny = watch(model, optimizer)
    over = threading.Event()

    def ask() -> None:
        with torch.no_grad():
            while not over.is_set():
                model(torch.ones(WIDTH, WIDTH))

    def trains() -> None:
        try:
            train(model, optimizer, nanny, batches(number), number)
        finally:
            over.set()

    together(ask, trains)
    nanny.close()
    return bits(model)


def closed(number: int, watch: Open) -> bytes:
    """The nanny is closed by another thread in the middle of the training."""
    model, optimizer = made(number, blocks=6)
    nanny = watch(model, optimizer)
    begun = threading.Event()

    def counted() -> Iterator[torch.Tensor]:
        for step, x in enumerate(batches(number)):
            if step == number % STEPS:
                begun.set()
            yield x

    def close() -> None:
        begun.wait()
        nanny.close()

    together(lambda: train(model, optimizer, nanny, counted(), number), close)
    return bits(model)


def loader(number: int, watch: Open) -> bytes:
    """Batches are made by a thread, which runs operators and a part of the model; in every eighth
    round by a process as well, which is forked meanwhile (SOAK_NO_FORK: in none; TSan does not know
    the threads of a child that was forked from a process of several).
    """
    model, optimizer = made(number)
    nanny = watch(model, optimizer)
    frozen, _ = made(1000 + number, blocks=1)
    held = TensorDataset(torch.cat(list(batches(number))))
    forks = number % 8 == 7 and "SOAK_NO_FORK" not in os.environ
    source = DataLoader(held, batch_size=WIDTH, num_workers=int(forks))
    ready: queue.Queue[torch.Tensor | None] = queue.Queue(maxsize=2)

    def fill() -> None:
        try:
            with torch.no_grad():
                for (x,) in source:
                    ready.put(frozen(x - x.mean()))
        finally:
            ready.put(None)

    together(fill, lambda: train(model, optimizer, nanny, iter(ready.get, None), number))
    nanny.close()
    return bits(model)


def replicas_of(model: nn.Module, count: int) -> list[nn.Module]:
    """As torch.nn.parallel.replicate makes them, which itself needs devices."""
    made: list[nn.Module] = []
    for _ in range(count):
        copies = {each: each._replicate_for_data_parallel() for each in model.modules()}
        for module, copy in copies.items():
            for name, child in module._modules.items():
                copy._modules[name] = None if child is None else copies[child]
            for name, parameter in module._parameters.items():
                copy.__dict__[name] = None if parameter is None else parameter.view_as(parameter)
        made.append(copies[model])
    return made


def replicas(number: int, watch: Open) -> bytes:
    """DataParallel: parts of a batch go through replicas, each in a thread, and the main thread
    waits (torch.nn.parallel.parallel_apply is just that, with devices).
    """
    model, optimizer = made(number)
    nanny = watch(model, optimizer)
    for step, x in enumerate(batches(number)):
        with nanny.step(step) if number % 2 == 0 else contextlib.nullcontext():
            outputs: list[Any] = [None, None]
            copies = replicas_of(model, 2)

            def run(at: int, copies: Any = copies, x: Any = x, outputs: Any = outputs) -> None:
                outputs[at] = copies[at](x.roll(at, 0))

            together(lambda: run(0), lambda: run(1))
            loss = torch.stack(outputs).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    nanny.close()
    return bits(model)


def pipeline(number: int, watch: Open) -> bytes:
    """The first half runs in a thread, the second half in another one; backward pass and optimizer
    in the main thread.
    """
    model, optimizer = made(number, blocks=4)
    nanny = watch(model, optimizer)
    first, second = model[:2], model[2:]
    to_first: queue.Queue[Any] = queue.Queue()
    to_second: queue.Queue[Any] = queue.Queue()
    back: queue.Queue[Any] = queue.Queue()

    def stage(part: nn.Module, taken: queue.Queue[Any], given: queue.Queue[Any]) -> None:
        for x in iter(taken.get, None):
            given.put(part(x))
        given.put(None)

    def trains() -> None:
        for step, x in enumerate(batches(number)):
            with nanny.step(step) if number % 2 == 0 else contextlib.nullcontext():
                to_first.put(x)  # two micro-batches are under way at once
                to_first.put(x.roll(1, 0))
                loss = back.get().square().mean() + back.get().square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        to_first.put(None)

    together(
        lambda: stage(first, to_first, to_second), lambda: stage(second, to_second, back), trains
    )
    nanny.close()
    return bits(model)


def shards(number: int, watch: Open) -> bytes:
    """Two threads derive the same weights, whose gradients add up; the main thread updates them."""
    model, optimizer = made(number)
    nanny = watch(model, optimizer)
    for step, x in enumerate(batches(number)):
        with nanny.step(step) if number % 2 == 0 else contextlib.nullcontext():
            optimizer.zero_grad()

            def derive(at: int, x: Any = x) -> None:
                model(x.roll(at, 0)).square().mean().backward()

            together(lambda: derive(0), lambda: derive(1))
            optimizer.step()
    nanny.close()
    return bits(model)


def pool(number: int, watch: Open) -> bytes:
    """Each step in another thread, one after another; the nanny was made in none of them."""
    model, optimizer = made(number)
    nanny = watch(model, optimizer)
    for step, x in enumerate(batches(number)):
        with nanny.step(step) if number % 2 == 0 else contextlib.nullcontext():
            together(lambda x=x: train(model, optimizer, Nobody(), [x], number))  # type: ignore[misc]
    nanny.close()
    return bits(model)


class _Deep(torch.autograd.Function):
    """Its backward pass runs another one inside: the deepest are run by threads of autograd's."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, module: nn.Module, depth: int) -> torch.Tensor:
        ctx.module, ctx.depth = module, depth
        ctx.save_for_backward(x)
        with torch.no_grad():
            return module(x)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            if ctx.depth:
                y = _Deep.apply(x, ctx.module, ctx.depth - 1)
            else:
                y = ctx.module(x)
            torch.autograd.backward(y, gradient)
        return x.grad, None, None


def autograd_threads(number: int, watch: Open) -> bytes:
    """Two trainings whose backward passes are so deep that threads of autograd's run parts of them
    (more than 60 within each other); as the device threads of a GPU do.
    """
    pairs = [made(2 * number + each, blocks=1) for each in range(2)]

    def one(which: int) -> None:
        model, optimizer = pairs[which]
        nanny = watch(model, optimizer)
        for step, x in enumerate(batches(number, steps=4)):
            with nanny.step(step) if number % 2 == 0 else contextlib.nullcontext():
                y = model(x)
                loss = _Deep.apply(y, model, 80).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        nanny.close()

    together(lambda: one(0), lambda: one(1))
    return bits(*(model for model, _ in pairs))


SCENARIOS: dict[str, Callable[[int, Open], bytes]] = {
    each.__name__: each
    for each in (
        two_models,
        evaluation,
        closed,
        loader,
        replicas,
        pipeline,
        shards,
        pool,
        autograd_threads,
    )
}
