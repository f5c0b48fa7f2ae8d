"""Trainings of several ranks on gloo: healthy ones, and the same with one fault between ranks.

torchrun --nproc_per_node=2 tests/ranks/trainings.py NAME FOLDER
"""

from __future__ import annotations

import hashlib
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


class Unwatched:
    def close(self) -> None: ...


trained: list[nn.Module] = []


def watch(net: nn.Module, folder: str) -> mpnanny.MixedPrecisionNanny | Unwatched:
    trained.append(net)
    if folder == "-":
        return Unwatched()
    return mpnanny.watch_model(net, db=os.path.join(folder, "metrics.db"), quiet=True)


def bits(net: nn.Module) -> str:
    """Of what this rank holds of the parameters."""
    found = hashlib.sha256()
    for parameter in net.parameters():
        local = getattr(parameter, "_local_tensor", parameter)
        found.update(local.detach().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


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


@training
def rate_of_one_rank(folder: str) -> None:
    net = model()
    rank = dist.get_rank()
    loop(DistributedDataParallel(net), net, folder, lr=0.05 if rank == 0 else 0.04)


@training
def no_sync_left_on(folder: str) -> None:
    net = model()
    wrapped = DistributedDataParallel(net)
    rank = dist.get_rank()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    nanny = watch(net, folder)
    for step in range(STEPS):
        if step >= 5:
            wrapped.require_backward_grad_sync = False
        loss_of(wrapped, step, rank).backward()
        optimizer.step()
        optimizer.zero_grad()
    nanny.close()


@training
def accumulated(folder: str) -> None:
    """Healthy: two passes, of which the second reduces."""
    net = model()
    wrapped = DistributedDataParallel(net)
    rank = dist.get_rank()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    nanny = watch(net, folder)
    for step in range(STEPS):
        with wrapped.no_sync():
            (loss_of(wrapped, 2 * step, rank) / 2).backward()
        (loss_of(wrapped, 2 * step + 1, rank) / 2).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
    nanny.close()


@training
def summed_over_tokens(folder: str) -> None:
    """Healthy: sums of the ranks' gradients, each divided by the tokens of all ranks."""
    net = model()
    rank, size = dist.get_rank(), dist.get_world_size()
    wrapped = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    nanny = watch(net, folder)
    for step in range(STEPS):
        x, y = batch(step, rank, 8 + 8 * rank)
        tokens = torch.tensor(float(len(x)))
        dist.all_reduce(tokens)
        loss = nn.functional.mse_loss(wrapped(x), y, reduction="sum") / tokens
        (loss * size).backward()
        optimizer.step()
        optimizer.zero_grad()
    nanny.close()


@training
def compressed(folder: str) -> None:
    """Healthy: gradients are reduced in FP16."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    net = model()
    wrapped = DistributedDataParallel(net)
    wrapped.register_comm_hook(None, fp16_compress_hook)
    loop(wrapped, net, folder)


@training
def zero_redundancy(folder: str) -> None:
    """Healthy: each rank has the optimizer states of a part of the parameters."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    net = model()
    wrapped = DistributedDataParallel(net)
    rank = dist.get_rank()
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=0.01)
    nanny = watch(net, folder)
    for step in range(STEPS):
        loss_of(wrapped, step, rank).backward()
        optimizer.step()
        optimizer.zero_grad()
    nanny.close()


class Normed(Net):
    def __init__(self) -> None:
        super().__init__()
        self.batch_norm = nn.BatchNorm1d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.batch_norm(self.embed(x)) + self.table
        return self.head(h + self.down(torch.relu(self.up(self.norm(h)))))


@training
def batch_norms(folder: str) -> None:
    """Healthy: each rank has running statistics of its own."""
    torch.manual_seed(0)
    net = Normed()
    loop(DistributedDataParallel(net, broadcast_buffers=False), net, folder)


class Expert(Net):
    """Counts what its router sends."""

    def __init__(self) -> None:
        super().__init__()
        self.local = nn.Linear(16, 16)
        self.register_buffer("count", torch.zeros(4, dtype=torch.int64))
        self.in_place = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.embed(x)) + self.table
        sent = torch.bincount(h[:, :4].argmax(1), minlength=4)
        if self.in_place:
            self.count += sent
            dist.all_reduce(self.count)
        else:
            sent = sent.clone()
            dist.all_reduce(sent)
            self.count += sent
        return self.head(h + self.local(h) + self.down(torch.relu(self.up(h))))


def expert(seed: int = 0) -> Expert:
    torch.manual_seed(seed)
    return Expert()


@training
def count_in_place(folder: str) -> None:
    net = expert()
    net.in_place = True
    loop(DistributedDataParallel(net, broadcast_buffers=False), net, folder)


@training
def count(folder: str) -> None:
    """Healthy."""
    net = expert()
    loop(DistributedDataParallel(net, broadcast_buffers=False), net, folder)


@training
def local_expert(folder: str) -> None:
    """Healthy: one part is each rank's own."""
    net = expert()
    torch.manual_seed(dist.get_rank())
    net.local = nn.Linear(16, 16)

    def reduce(step: int) -> None:
        for name, parameter in net.named_parameters():
            if not name.startswith("local"):
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()

    loop(net, net, folder, reduce)


class Dropped(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = nn.functional.dropout(self.norm(self.embed(x)) + self.table, 0.2)
        return self.head(h + self.down(torch.relu(self.up(h))))


def _tensor_parallel(folder: str, seed: int) -> None:
    torch.manual_seed(0)
    net = Dropped()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(net, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    nanny = watch(net, folder)
    torch.manual_seed(seed)
    for step in range(STEPS):
        loss_of(net, step, 0).backward()
        optimizer.step()
        optimizer.zero_grad()
    nanny.close()


@training
def dropout_of_each_rank(folder: str) -> None:
    _tensor_parallel(folder, dist.get_rank())


@training
def dropout_of_all(folder: str) -> None:
    """Healthy."""
    _tensor_parallel(folder, 3)


class First(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.mix = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.mix(self.embed(x)))


class Last(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8)
        self.head = nn.Linear(8, 32, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.mix(x)))


def _pipeline(folder: str, both: bool) -> None:
    """Two stages; the weights of the embedding are those of the head."""
    rank = dist.get_rank()
    torch.manual_seed(1 + rank)
    stage: nn.Module = First() if rank == 0 else Last()
    tied = stage.embed.weight if isinstance(stage, First) else stage.head.weight
    dist.broadcast(tied.data, 0)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
    nanny = watch(stage, folder)
    for step in range(STEPS):
        made = torch.Generator().manual_seed(step)
        tokens = torch.randint(0, 32, (16,), generator=made)
        if rank == 0:
            hidden = stage(tokens)
            dist.send(hidden.detach(), 1)
            back = torch.empty_like(hidden)
            dist.recv(back, 1)
            hidden.backward(back)
        else:
            given = torch.empty(16, 8)
            dist.recv(given, 0)
            given.requires_grad_()
            nn.functional.cross_entropy(stage(given), tokens).backward()
            dist.send(given.grad, 0)
        total = tied.grad.clone()
        dist.all_reduce(total)
        if both or rank == 0:
            tied.grad.copy_(total)
        optimizer.step()
        optimizer.zero_grad()
    nanny.close()


@training
def tied_reduced_once(folder: str) -> None:
    _pipeline(folder, both=False)


@training
def tied(folder: str) -> None:
    """Healthy."""
    _pipeline(folder, both=True)


@training
def nan_through_forward(folder: str) -> None:
    """A rank's features become NaN, and all ranks gather them."""
    net = model()
    wrapped = DistributedDataParallel(net)
    rank = dist.get_rank()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    nanny = watch(net, folder)
    for step in range(STEPS):
        x, y = batch(step, rank)
        output = wrapped(x)
        mask = torch.ones(16) if step != 6 or rank == 0 else torch.zeros(16)
        mean = (output[:, 0] * mask).sum() / mask.sum()
        means = [torch.empty(()) for _ in range(dist.get_world_size())]
        dist.all_gather(means, mean.detach())
        loss = nn.functional.mse_loss(output, y) + 0.1 * (mean - torch.stack(means).mean()) ** 2
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    nanny.close()


@training
def hybrid(folder: str) -> None:
    """Healthy, four ranks: shards of two, each held twice."""
    net = model()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    for part in (net.up, net.down):
        fully_shard(part, mesh=mesh)
    fully_shard(net, mesh=mesh)

    def clip(step: int) -> None:
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)

    loop(net, net, folder, clip)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in sys.argv[2:]:
        if sys.argv[1] == "-":
            NAMES[name]("-")
        else:
            NAMES[name](os.path.join(sys.argv[1], name))
        line = f"{name} {dist.get_rank()} {bits(trained.pop())}\n"
        os.write(1, line.encode())  # at once: ranks write to one pipe
        dist.barrier()
    dist.destroy_process_group()
