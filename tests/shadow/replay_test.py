"""Operators that run twice in a replayed step: one that errs once is found with its line, right
trainings are clean, and no bit of a training changes.
"""

from __future__ import annotations

import itertools
import json

import pytest
import torch
from finds import inputs
from mpnanny import MixedPrecisionNanny
from mpnanny.shadow.replay import Replay
from mpnanny.shadow.schedule import parse
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

LIBRARY = torch.library.Library("mpnanny_replay_test", "FRAGMENT")
LIBRARY.define("tripled(Tensor x) -> Tensor")
LIBRARY.define("added_(Tensor(a!) x, Tensor y) -> Tensor(a!)")
LIBRARY.define("shaken(Tensor x) -> Tensor")
LIBRARY.define("raced(Tensor x) -> Tensor")
TURNS = itertools.count()
calls = {"tripled": 0, "added": 0, "err_at": -1}


def flip(tensor: torch.Tensor) -> None:
    """One bit of one element."""
    bits = tensor.view(torch.int32).reshape(-1)
    bits[bits.numel() // 2] ^= 1 << 20


def tripled(x: torch.Tensor) -> torch.Tensor:
    calls["tripled"] += x.dtype is torch.float32  # not what the shadow runs in FP64
    made = x * 3
    if x.dtype is torch.float32 and calls["tripled"] == calls["err_at"]:
        flip(made)
    return made


def added_(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    calls["added"] += x.dtype is torch.float32
    x.copy_(x + y)
    if x.dtype is torch.float32 and calls["added"] == calls["err_at"]:
        flip(x)
    return x


LIBRARY.impl("tripled", tripled, "CPU")
LIBRARY.impl("added_", added_, "CPU")
LIBRARY.impl("shaken", lambda x: x + torch.rand_like(x) * 1e-3, "CPU")
LIBRARY.impl("raced", lambda x: x + next(TURNS) * 1e-3, "CPU")


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.ops.mpnanny_replay_test.tripled(x)  # errs

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


@pytest.fixture(autouse=True)
def from_the_beginning():
    calls.update(tripled=0, added=0, err_at=-1)
    torch.manual_seed(0)


def of_replay(finds):
    found = [each for each in finds.all if each["kind"] == "not_reproduced"]
    for each in found:
        each["detail"] = json.loads(each["detail"])
    return found


def test_an_operator_that_errs_once_in_a_thousand_calls_is_found_with_its_line(train):
    model = nn.Linear(8, 8)
    calls["err_at"] = 23

    def loss_of(step):
        x = model(inputs())
        for _ in range(3):
            x = Tripled.apply(x) / 3
        return x.square().mean()

    finds = train(model, loss_of, steps=6, shadow="every=1 replay")
    (found,) = of_replay(finds)
    assert found["severity"] == "ERROR"
    assert found["line"].endswith("# errs")
    assert found["operator"].startswith("mpnanny_replay_test.tripled")
    assert found["detail"]["device"] == "cpu" and found["detail"]["elements"] == 1
    assert "each_time" not in found["detail"]
    assert finds.database.rows("SELECT * FROM alert WHERE type = 'PROTOCOL'")


@pytest.mark.parametrize("err_at", [5, 6])
def test_what_writes_its_operand_is_run_on_what_that_was(train, err_at):
    """Of two calls an operator runs at 5, and again at 6."""
    model = nn.Linear(8, 8)
    state = torch.zeros(8)
    calls["err_at"] = err_at

    def loss_of(step):
        torch.ops.mpnanny_replay_test.added_(state, torch.ones(8))  # the state
        return model(inputs()).square().mean()

    finds = train(model, loss_of, steps=4, shadow="every=1 replay")
    (found,) = of_replay(finds)
    assert found["line"].endswith("# the state")
    held = torch.full((8,), 4.0)
    assert (err_at == 5) != torch.equal(state, held)  # what the first run gave stays


def test_what_draws_without_saying_so_is_left_out(train):
    model = nn.Linear(8, 8)

    def loss_of(step):
        noise = torch.ops.mpnanny_replay_test.shaken(torch.ones(16, 8))
        return (model(inputs()) + noise).square().mean()

    assert of_replay(train(model, loss_of, steps=2, shadow="every=1 replay")) == []


def test_an_operator_that_never_agrees_with_itself_is_a_warning(train):
    model = nn.Linear(8, 8)

    def loss_of(step):
        noise = torch.ops.mpnanny_replay_test.raced(model(inputs()).detach())
        return (model(inputs()) + noise).square().mean()

    (found,) = of_replay(train(model, loss_of, steps=2, shadow="every=1 replay"))
    assert found["severity"] == "WARNING" and found["detail"]["each_time"]


class Net(nn.Module):
    def __init__(self, checkpointing: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.embed = nn.Embedding(16, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.attend = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 4)
        self.checkpointing = checkpointing

    def middle(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):  # oneDNN has no such LSTM everywhere
            x = self.lstm(x.float())[0]
        return self.attend(x)

    def forward(self, picture: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        seen = functional.dropout(self.norm(self.conv(picture)).relu(), 0.1, self.training)
        x = self.embed(words) + seen.mean((2, 3)).repeat(1, 2)[:, None]
        if self.checkpointing:
            x = checkpoint(self.middle, x, use_reentrant=False)
        else:
            x = self.middle(x)
        return self.head(x.mean(1))


def trained(db, shadow, autocast=False, checkpointing=False, optimizer="AdamW"):
    """All weights after some steps, and the random state."""
    torch.manual_seed(0)
    model = Net(checkpointing)
    descent = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", enabled=autocast)
    losses = []
    with MixedPrecisionNanny(model, db=db, shadow=shadow, quiet=True):
        for _ in range(4):
            picture, words = torch.randn(4, 1, 6, 6), torch.randint(16, (4, 5))
            descent.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                loss = functional.cross_entropy(model(picture, words), torch.randint(4, (4,)))
            scaler.scale(loss).backward()
            scaler.unscale_(descent)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(descent)
            scaler.update()
            losses.append(loss.item())
    return losses, [each.clone() for each in model.state_dict().values()], torch.get_rng_state()


HEALTHY = {
    "plain": {},
    "autocast": {"autocast": True},
    "checkpointing": {"checkpointing": True},
    "momentum": {"optimizer": "RMSprop"},
}


@pytest.mark.parametrize("kind", HEALTHY)
def test_right_trainings_are_clean_and_keep_their_bits(db, database, tmp_path, kind):
    plain = trained(str(tmp_path / "off.db"), "off", **HEALTHY[kind])
    replayed = trained(db, "every=1 replay", **HEALTHY[kind])
    assert plain[0] == replayed[0]
    assert all(torch.equal(a, b) for a, b in zip(plain[1], replayed[1], strict=True))
    assert torch.equal(plain[2], replayed[2])
    rows = database().rows("SELECT * FROM shadow_finding WHERE kind = 'not_reproduced'")
    assert rows == []
    details = [
        json.loads(each["detail"]) for each in database().rows("SELECT detail FROM shadow_step")
    ]
    assert details and all(each["replayed"] > 50 for each in details)
    left_out = [dict(each["not_replayed"]) for each in details]
    assert all(each.get("random", 0) > 0 and not each.get("failed") for each in left_out)


def test_what_overlaps_with_what_it_writes_is_repeated_on_copies_of_both():
    from mpnanny.fp64.operators import operator_of

    replay = Replay(1 << 20)
    x = torch.arange(6.0)
    function = torch.ops.aten.add_.Tensor
    args = (x[1:], x[:-1].clone())
    for given in (args, (x[:3], x[:3])):
        again = replay.before(function, operator_of(function), given, {})
        result = function(*given)
        replay.after(again, operator_of(function), None, result)
    assert replay.found == [] and replay.replayed == 2


def test_a_nan_is_itself_and_another_zero_is_other_bits():
    from mpnanny.shadow.replay import _first_other

    nan = torch.tensor([float("nan"), 0.0])
    assert _first_other([nan], [nan.clone()]) is None
    assert _first_other([nan], [torch.tensor([float("nan"), -0.0])]) == 0


def test_the_words():
    asked = parse("every=100 replay")
    assert asked.replay and asked.every == 100 and not parse("auto").replay
    assert parse("replay layers=head").replay
    with pytest.raises(ValueError, match="replay"):
        parse("replays")
