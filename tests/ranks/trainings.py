"""Trainings of several ranks on gloo: healthy ones, and the same with one fault between ranks.

torchrun --nproc_per_node=2 tests/ranks/trainings.py NAME FOLDER
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import mpnanny
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

STEPS = 12
NAMES: dict[str, Callable[[str], None]] = {}


def training(make: Callable[[str], None]) -> Callable[[str], None]:
    NAMES[make.__name__] = make
    return make


class Net(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, 1)
        self.register_buffer("table", torch.linspace(0, 1, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.embed(x)) + self.table
        return self.head(h + self.down(torch.relu(self.up(h))))


def model(seed: int = 0) -> Net:
    torch.manual_seed(seed)
    return Net()


def batch(step: int, rank: int, size: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(size, 8, generator=made)
    return x, x.sum(1, keepdim=True)


def loss_of(net: nn.Module, step: int, rank: int) -> torch.Tensor:
    x, y = batch(step, rank)
    return nn.functional.mse_loss(net(x), y)


def watch(net: nn.Module, folder: str) -> mpnanny.MixedPrecisionNanny:
    return mpnanny.watch_model(net, db=os.path.join(folder, "metrics.db"), quiet=True)


def loop(
    net: nn.Module,
    watched: nn.Module,
    folder: str,
    between: Callable[[int], None] = lambda step: None,
    lr: float = 0.05,
) -> None:
    rank = dist.get_rank()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    nanny = watch(watched, folder)
    for step in range(STEPS):
        loss_of(net, step, rank).backward()
        between(step)
        optimizer.step()
        optimizer.zero_grad()
    nanny.close()
    print("loss", rank, float(loss_of(net, 99, rank).detach()))


@training
def ddp(folder: str) -> None:
    net = model()
    loop(DistributedDataParallel(net), net, folder)


@training
def ddp_clipped(folder: str) -> None:
    net = model()

    def clip(step: int) -> None:
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)

    loop(DistributedDataParallel(net), net, folder, clip)


@training
def ddp_reduced_twice(folder: str) -> None:
    net = model()

    def again(step: int) -> None:
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)

    loop(DistributedDataParallel(net), net, folder, again, lr=0.02)


@training
def by_hand(folder: str) -> None:
    net = model()

    def reduce(step: int) -> None:
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()

    loop(net, net, folder, reduce)


@training
def one_not_reduced(folder: str) -> None:
    net = model()

    def reduce(step: int) -> None:
        for name, parameter in net.named_parameters():
            if name != "head.bias":
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()

    loop(net, net, folder, reduce)


@training
def not_broadcast(folder: str) -> None:
    net = model()
    torch.manual_seed(7 + dist.get_rank())
    net.head = nn.Linear(16, 1)

    def reduce(step: int) -> None:
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG if False else dist.ReduceOp.SUM)
            parameter.grad /= dist.get_world_size()

    loop(net, net, folder, reduce)


@training
def other_table(folder: str) -> None:
    net = model()
    if dist.get_rank() == 1:
        net.table.mul_(3)
    loop(DistributedDataParallel(net, broadcast_buffers=False), net, folder)


@training
def fsdp(folder: str) -> None:
    net = model()
    for part in (net.up, net.down):
        fully_shard(part)
    fully_shard(net)

    def clip(step: int) -> None:
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)

    loop(net, net, folder, clip)


@training
def fsdp_norm_of_shards(folder: str) -> None:
    net = model()
    for part in (net.up, net.down):
        fully_shard(part)
    fully_shard(net)

    def clip(step: int) -> None:
        shards = [parameter.grad.to_local() for parameter in net.parameters()]
        norm = torch.sqrt(sum(each.pow(2).sum() for each in shards))
        for each in shards:
            each.mul_(min(1.0, 0.5 / (float(norm) + 1e-6)))

    loop(net, net, folder, clip)


@training
def fsdp_norm_counted_twice(folder: str) -> None:
    """The replicated norm's gradients are summed over the ranks as if they were shards."""
    net = model()
    for part in (net.up, net.down, net.embed, net.head):
        fully_shard(part)

    def clip(step: int) -> None:
        square = torch.zeros(())
        for parameter in (net.norm.weight, net.norm.bias):
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        for parameter in net.parameters():
            grad = parameter.grad
            square += getattr(grad, "_local_tensor", grad).pow(2).sum()
        dist.all_reduce(square)
        scale = min(1.0, 0.5 / (float(square.sqrt()) + 1e-6))
        for parameter in net.parameters():
            parameter.grad.mul_(scale)

    loop(net, net, folder, clip)


@training
def tensor_parallel(folder: str) -> None:
    net = model()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(net, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    rank = 0  # all see the same batch
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    nanny = watch(net, folder)
    for step in range(STEPS):
        loss_of(net, step, rank).backward()
        nn.utils.clip_grad_norm_([p for p in net.parameters() if not hasattr(p, "placements")], 1.0)
        optimizer.step()
        optimizer.zero_grad()
    nanny.close()


@training
def nan_of_one_rank(folder: str) -> None:
    net = model()
    wrapped = DistributedDataParallel(net)
    rank = dist.get_rank()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    nanny = watch(net, folder)
    for step in range(STEPS):
        x, y = batch(step, rank)
        output = wrapped(x)
        loss = nn.functional.mse_loss(output, y)
        if step == 6 and rank == 1:
            loss = loss + torch.log(output.sum() * 0)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    nanny.close()


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    NAMES[sys.argv[1]](sys.argv[2])
    dist.destroy_process_group()
