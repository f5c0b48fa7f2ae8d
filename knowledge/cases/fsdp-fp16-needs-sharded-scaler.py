"""Two ranks, each with half of the weights and a GradScaler of its own. An overflow in one half
makes that rank alone skip and halve its scale; from then on every gradient is wrong on both.
"""

import torch

Numbers = dict[str, float | bool]

RANKS = 2


def run(shared: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    shards = [torch.nn.Parameter(torch.ones(4)) for _ in range(RANKS)]
    optimizers = [torch.optim.SGD([shard], lr=1.0) for shard in shards]
    scalers = [torch.amp.GradScaler("cpu", init_scale=65536.0) for _ in range(RANKS)]
    applied = [0.0, 0.0]
    skips = [0, 0]
    for step in range(3):
        # Each rank has its own batch, and so its own gradient of the whole model.
        gradients = [torch.rand(RANKS * 4, generator=generator) for _ in range(RANKS)]
        right = sum(gradients) / RANKS
        # scale(1.0) creates the scale; reduce-scatter averages what each rank has scaled.
        scaled = [g * s.scale(torch.ones(())) for g, s in zip(gradients, scalers, strict=True)]
        reduced = (sum(scaled) / RANKS).chunk(RANKS)
        for rank, (shard, part) in enumerate(zip(shards, reduced, strict=True)):
            shard.grad = part.clone()
            if step == 0 and rank == 1:
                shard.grad[0] = float("inf")  # an overflow in the half that rank 1 holds
            scalers[rank].unscale_(optimizers[rank])
        found = [
            next(iter(scaler._found_inf_per_device(optimizer).values()))
            for scaler, optimizer in zip(scalers, optimizers, strict=True)
        ]
        if shared:  # ShardedGradScaler: all-reduce of found_inf
            for one in found:
                one.copy_(torch.stack([other.clone() for other in found]).max(0).values)
        for rank in range(RANKS):
            before = shards[rank].detach().clone()
            scalers[rank].step(optimizers[rank])
            scalers[rank].update()
            change = (before - shards[rank].detach()).norm()
            skips[rank] += int(change == 0)
            applied[rank] = (change / right.chunk(RANKS)[rank].norm()).item()
    scales = [s.get_scale() for s in scalers]
    return {
        "skipped_on_rank_0": skips[0],
        "skipped_on_rank_1": skips[1],
        "scale_on_rank_0": scales[0],
        "scale_on_rank_1": scales[1],
        "update_on_rank_0_over_right": applied[0],
        "update_on_rank_1_over_right": applied[1],
        "failed": scales[0] != scales[1],
    }


def broken() -> Numbers:
    return run(shared=False)


def fixed() -> Numbers:
    return run(shared=True)
