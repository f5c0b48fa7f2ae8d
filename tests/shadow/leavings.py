"""What a training leaves, to compare with that of another one bit for bit."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any

import torch
from compatibility_features import Losses
from compatibility_test import local
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook


def image(tensor: torch.Tensor | None) -> Any:
    """A tensor's bits, to compare; of those without plain memory what can be had."""
    if tensor is None:
        return None
    tensor = local(tensor)
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.layout is not torch.strided:
        return str(tensor.layout), image(tensor.to_dense())
    whole = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    data = whole.view(torch.uint8).numpy().tobytes()
    return tensor.dtype, tuple(tensor.shape), hashlib.blake2b(data, digest_size=8).digest()


def states_of(optimizers: list[torch.optim.Optimizer]) -> dict[Any, Any]:
    """Everything that optimizers hold, by numbers."""
    found: dict[Any, Any] = {}

    def walk(key: Any, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            found[key] = image(value)
        elif isinstance(value, dict):
            for name, each in value.items():
                walk((key, str(name)), each)
        elif isinstance(value, (tuple, list)):
            for at, each in enumerate(value):
                walk((key, at), each)
        else:
            found[key] = repr(value)

    for number, optimizer in enumerate(optimizers):
        walk(number, optimizer.state_dict())
    return found


def image_of(model: nn.Module) -> dict[str, Any]:
    """Parameters, buffers and gradients: their bits, the versions of what is the model's, what kind
    of objects."""
    found: dict[str, Any] = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        found[name] = (image(tensor), tensor._version, tensor.requires_grad, type(tensor))
        gradient = tensor.grad
        found[f"{name}.grad"] = image(gradient)
        if gradient is not None:
            found[f"{name}.grad is"] = (type(gradient), gradient.requires_grad, gradient.stride())
    return found


class Course:
    """Of every step of a training the parameters' versions, and which gradients are the same object
    as in the step before.
    """

    def __init__(self) -> None:
        self.optimizers: list[torch.optim.Optimizer] = []
        self.versions: list[list[Any]] = []
        self._gradients: dict[int, torch.Tensor | None] = {}

    def stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not any(each is optimizer for each in self.optimizers):
            self.optimizers.append(optimizer)
        for group in optimizer.param_groups:
            for each in group["params"]:
                before = self._gradients.get(id(each))
                self.versions.append([each._version, each.grad is None, each.grad is before])
                self._gradients[id(each)] = each.grad


def course_of(train: Callable[[], Losses]) -> tuple[Course, dict[str, Any], nn.Module]:
    course = Course()
    hook = register_optimizer_step_post_hook(course.stepped)
    torch.manual_seed(3)
    random.seed(3)
    try:
        losses, model = train()
    finally:
        hook.remove()
    everything = {
        "losses": [loss.hex() for loss in losses],
        "model": image_of(model),
        "optimizers": states_of(course.optimizers),
        "versions": course.versions,
        "random": torch.get_rng_state().numpy().tobytes(),
        "python's random": random.getstate(),
    }
    return course, everything, model


def expect_same(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    for what in ("model", "optimizers"):
        assert mine[what].keys() == theirs[what].keys()
        differ = {
            key: (mine[what][key], theirs[what][key])
            for key in mine[what]
            if mine[what][key] != theirs[what][key]
        }
        assert differ == {}, what
    for what in ("losses", "versions", "random", "python's random"):
        assert mine[what] == theirs[what], what
