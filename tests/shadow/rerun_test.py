"""A module that is run again at a failing step has run once, whatever it draws from, keeps, or
writes.
"""

from __future__ import annotations

import contextlib
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from finds import Finds, inputs
from leavings import image
from mpnanny import MixedPrecisionNanny
from torch import nn

NEVER = "steps=900-901"
FAILS = 1  # the step

Watch = Callable[[nn.Module], Any]


class State(NamedTuple):
    hidden: torch.Tensor
    calls: int


class Remembering(nn.Module):
    """Draws from generators that torch does not own, and keeps what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 8)
        self.generator = torch.Generator().manual_seed(1)
        self.dice = random.Random(2)
        self.sources = {"numpy": numpy.random.default_rng(3), "old": numpy.random.RandomState(4)}
        self.seen: list[float] = []
        self.newest: deque[float] = deque(maxlen=2)
        self.lengths: set[int] = set()
        self.counts = defaultdict(int)
        self.caches = OrderedDict(keys=[torch.zeros(8), (torch.zeros(8), 1)])
        self.state = State(torch.zeros(8), 0)
        self.sum = torch.zeros(8)
        self.record = self.seen.append  # another name of the list
        self.mine = [self.caches]
        self.scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.counts["calls"] += 1
        noise = random.random() + torch.rand((), generator=self.generator).item()
        noise += self.dice.random() + numpy.random.rand()
        noise += self.sources["numpy"].random() + self.sources["old"].rand()
        self.record(noise)
        self.newest.append(noise)
        self.lengths.add(len(self.seen))
        mean = x.detach().mean(0)
        keys = self.mine[0]["keys"]
        keys[0].add_(mean)
        keys[1][0].mul_(0.5).add_(mean)
        keys.append(mean)
        self.state.hidden.add_(mean)
        self.state = State(self.state.hidden, self.state.calls + 1)
        self.sum += mean
        return self.enter(x).half() * (self.scale * 1000) + noise


def _train(model: nn.Module, watch: Watch) -> None:
    descent = torch.optim.SGD(model.parameters(), lr=1e-3)
    with watch(model):
        for step in range(3):
            model.scale = 100.0 if step == FAILS else 1.0
            descent.zero_grad()
            model(inputs()).float().nan_to_num().clamp(-1, 1).mean().backward()
            descent.step()


def _bits(value: Any) -> Any:
    """Everything in `value`, to compare: the bits and versions of its tensors."""
    if isinstance(value, torch.Tensor):
        return image(value), value._version
    if isinstance(value, dict):
        return type(value), [(key, _bits(each)) for key, each in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return type(value), [_bits(each) for each in value]
    if isinstance(value, torch.Generator):
        return value.get_state().tolist()
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, numpy.random.Generator):
        return str(value.bit_generator.state)
    if isinstance(value, numpy.random.RandomState):
        return str(value.get_state())
    return repr(value) if not callable(value) else None


def _remembered(db: str | None) -> dict[str, Any]:
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)
    model = Remembering()
    _train(
        model,
        lambda model: (
            MixedPrecisionNanny(model, db=db, shadow=NEVER, quiet=True)
            if db
            else contextlib.nullcontext()
        ),
    )
    assert model.mine[0] is model.caches
    own = {name: _bits(each) for name, each in vars(model).items() if not name.startswith("_")}
    return own | {
        "python": random.getstate(),
        "torch": torch.get_rng_state().tolist(),
        "numpy": str(numpy.random.get_state()),
        "weights": [_bits(each) for each in model.parameters()],
    }


def test_generators_and_what_attributes_hold_are_as_after_one_run(db, database):
    plain, watched = _remembered(None), _remembered(db)
    assert [name for name in plain if plain[name] != watched[name]] == []
    found = Finds(database())
    assert [(each["step"], each["why"]) for each in found.steps] == [(FAILS, "rerun")]
    assert found.first()["kind"] == "range"
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []


class Averaged(nn.Module):
    """With a second network that follows the first one in the forward pass, as in MoCo."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.scale = how, 1.0
        self.enter, follower = nn.Linear(8, 8), nn.Linear(8, 8)
        follower.register_buffer("calls", torch.zeros(()))
        follower.requires_grad_(False)
        if how == "hidden in a list":
            self.hidden = [follower]
        else:
            self.follower = follower

    @torch.no_grad()
    def _follow(self) -> nn.Module:
        follower = self.hidden[0] if self.how == "hidden in a list" else self.follower
        for mine, other in zip(follower.parameters(), self.enter.parameters(), strict=True):
            if self.how == "in place":
                mine.lerp_(other, 0.1)
            elif self.how == "by .data":
                mine.data = mine.data * 0.9 + other.data * 0.1
        follower.calls += 1
        return follower

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        follower = self._follow()
        return (self.enter(x) + follower(x)).half() * (self.scale * 1000)


@pytest.mark.parametrize("how", ["in place", "by .data", "hidden in a list"])
def test_weights_that_a_forward_pass_writes_are_written_once(db, database, how):
    def train(watch: Watch) -> Any:
        torch.manual_seed(0)
        model = Averaged(how)
        follower = model.hidden[0] if how == "hidden in a list" else model.follower
        _train(model, watch)
        return [_bits(each) for each in (*follower.parameters(), follower.calls)]

    plain = train(lambda _model: contextlib.nullcontext())
    watched = train(lambda model: MixedPrecisionNanny(model, db=db, shadow=NEVER, quiet=True))
    assert plain == watched
    # What writes a weight in place is not run to its end.
    reruns = [] if how == "in place" else [(FAILS, "rerun")]
    assert [(each["step"], each["why"]) for each in Finds(database()).steps] == reruns
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []


class Scripted(nn.Module):
    """Whose buffers and weights Python does not hold."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part, self.scale = torch.jit.script(part), 1.0
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.part(x)).half() * (self.scale * 1000)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", [lambda: nn.Linear(8, 8), lambda: nn.BatchNorm1d(8)])
def test_scripted_parts_are_as_after_one_run(db, database, part):
    def train(watch: Watch) -> Any:
        torch.manual_seed(0)
        model = Scripted(part())
        _train(model, watch)
        tensors = [*model.parameters(), *model.buffers()]
        return [_bits(each) for each in tensors], torch.get_rng_state().tolist()

    plain = train(lambda _model: contextlib.nullcontext())
    watched = train(lambda model: MixedPrecisionNanny(model, db=db, shadow=NEVER, quiet=True))
    assert plain == watched
    assert database().rows("SELECT detail FROM event WHERE type = 'hook_failed'") == []
