"""Whatever a training uses: it is the same with and without the monitor, it is recorded, nothing
stays behind, and what cannot be watched is said once.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from compatibility_changes import CHANGES
from compatibility_features import FEATURES, STEPS, Losses
from compatibility_tensors import TENSORS
from conftest import Database
from identical_test import bits
from mpnanny import MixedPrecisionNanny
from torch import nn

ALL = FEATURES | CHANGES | TENSORS

# What is said of a feature: some words of every note. Of all others nothing is said.
SAID: dict[str, list[str]] = {
    "scripted and traced parts": ["0, 1"],
    "gradients of each sample": ["gradients of single samples"],
    "hessian and jvp in between": ["inside a transform"],
    "evaluation by the fast path": ["encoder.self_attn.out_proj"],
    "quantized parts": ["no plain memory"],
    "quantization aware": ["or nothing): a"],
    "fake tensors in between": ["FakeTensor"],
    "sparse gradients": ["sparse"],
    "complex tensors": ["complex"],
    "nested tensors": ["NestedTensor"],
    "sharded before watching": ["shard"],
    "sharded after watching": ["shard"],
    "sharded in mixed precision": ["shard"],
    "views and odd shapes": ["negated views"],
    "a compiled model": ["torch.compile"],
    "failures that are caught": ["the loss of such a step is their mean"],
}
# Where not every module's output can be read, or not every gradient, in every step.
PARTLY_SEEN = {
    "scripted and traced parts": "scripted modules call no hooks of their own",
    "gradients of each sample": "transforms hide the values",
    "evaluation by the fast path": "attention uses its last layer's weights by itself",
    "quantized parts": "quantized tensors are not read",
    "quantization aware": "one module's weights are used without it",
    "sparse gradients": "sparse gradients are not read",
    "complex tensors": "complex tensors are not read",
    "nested tensors": "ragged tensors are not read",
    "a compiled model": "torch.compile calls no hooks",
    "answers of all shapes": "a module that answers None has no output",
}
NO_NORM = {"fused optimizer and scaler": 2}  # steps whose gradients are not finite


def left_behind() -> dict[str, Any]:
    """Everything outside a model that a monitor could hang itself into. While other threads live (a
    training's own, those of torch.compile) two hooks of optimizers stay and do nothing: they cannot
    be taken away from under a thread that goes through them. The next run that ends without such
    threads takes them, which is asked of it here.
    """
    from mpnanny.hooks import taps

    alone = threading.active_count() == 1
    if alone and not taps._listeners:
        listener = taps.SomeCalls()
        taps.add(listener)
        taps.remove(listener)
    inert = () if alone or taps._listeners else (taps._before_step, taps._after_step)
    import torch.nn.modules.module as module
    import torch.optim.optimizer as optimizer
    from torch.nn.utils import clip_grad

    owners = [torch.autograd, torch.amp.GradScaler, clip_grad, torch.jit, nn.Module, torch.Tensor]
    owners += [torch.optim.Optimizer, torch.nn.functional, module, optimizer, torch.autograd.graph]
    found = {
        f"{getattr(owner, '__name__', owner)}.{name}": id(value)
        for owner in owners
        for name, value in vars(owner).items()
        if callable(value)
    }
    for name, hooks in [*vars(module).items(), *vars(optimizer).items()]:
        if name.startswith("_global") and isinstance(hooks, dict):
            found[name] = [each for each in hooks.values() if each not in inert]
    # init_process_group() puts a new one there each time.
    found["excepthook"] = getattr(sys.excepthook, "__module__", None)
    found["sigterm"] = signal.getsignal(signal.SIGTERM)
    found["threading"] = threading.excepthook
    found["modes"] = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    return found


def hooks_of(model: nn.Module) -> dict[str, Any]:
    """All dictionaries of hooks of all modules and parameters, by what is in them."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if "hook" in key and isinstance(value, dict):
                found[f"{name}.{key}"] = [str(type(each)) for each in value.values()]
        found[f"{name}.forward"] = "forward" in vars(module)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        for key in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            found[f"{name}.{key}"] = len(getattr(tensor, key, None) or ())
    return found


def local(tensor: torch.Tensor) -> torch.Tensor:
    return getattr(tensor, "_local_tensor", tensor).detach()


class Unwatched:
    def close(self) -> None:
        pass


def train(feature: Callable[..., Losses], watch: Callable[[nn.Module], Any]) -> Losses:
    torch.manual_seed(3)
    return feature(watch)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ALL)
def test_it_is_the_same_training_recorded_and_left_clean(name, db, database):
    plain, unwatched = train(ALL[name], lambda model: Unwatched())
    before, watched_models = left_behind(), []

    def watch(model: nn.Module) -> MixedPrecisionNanny:
        watched_models.append(model)
        return MixedPrecisionNanny(model, db=db, trace_interval=1, quiet=True)

    losses, model = train(ALL[name], watch)
    assert [x.hex() for x in losses] == [x.hex() for x in plain]
    for (key, mine), theirs in zip(
        model.state_dict().items(), unwatched.state_dict().values(), strict=True
    ):
        assert torch.equal(bits(local(mine)), bits(local(theirs))), key
    after = left_behind()
    assert [key for key in after if after[key] != before.get(key)] == []
    assert hooks_of(model) == hooks_of(unwatched)

    run = database().one("SELECT * FROM run")
    notes = json.loads(run["notes"] or "[]")
    said = SAID.get(name, [])
    assert len(notes) == len(said), notes
    for words in said:
        assert sum(words in note for note in notes) == 1, notes
    assert run["end_reason"] == "closed"
    assert database().alerts(severity="ERROR") == []
    steps = database().rows("SELECT * FROM step ORDER BY step")
    assert [row["step"] for row in steps] == list(range(STEPS))
    assert sum(not row["grad_norm"] for row in steps) <= NO_NORM.get(name, 0)
    assert all(row["loss"] is not None for row in steps) or name == "gradients of each sample"
    if name not in PARTLY_SEEN:
        _everything_was_seen(database(), model)


def _everything_was_seen(database: Database, model: nn.Module) -> None:
    seen = database.rows(
        "SELECT l.name, count(DISTINCT step) AS n FROM layer l LEFT JOIN tensor_stats t ON"
        " t.layer_id = l.layer_id AND t.kind IN (1, 3) GROUP BY l.layer_id"
    )
    steps = {row["name"]: row["n"] for row in seen}
    leaves = [name for name, m in model.named_modules() if next(m.children(), None) is None]
    parameters = [name for name, _ in model.named_parameters()]
    assert {name: steps.get(name) for name in leaves + parameters} == dict.fromkeys(
        leaves + parameters, STEPS
    )


def test_each_call_of_a_module_is_a_sample_forward_and_backward(db, database):
    train(
        FEATURES["a module called twice"],
        lambda model: MixedPrecisionNanny(model, db=db, trace_interval=1, quiet=True),
    )
    for kind in (1, 2):
        slots = database().rows(
            "SELECT slot, count(*) AS n FROM tensor_stats JOIN layer USING (layer_id)"
            " WHERE name = 'a' AND kind = ? GROUP BY slot ORDER BY slot",
            kind,
        )
        assert [(row["slot"], row["n"]) for row in slots] == [(0, STEPS), (256, STEPS)]
