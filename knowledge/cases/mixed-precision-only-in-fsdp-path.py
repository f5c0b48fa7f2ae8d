"""A trainer that applies its precision in the sharded path only: without sharding the run that is
called bf16 computes in FP32, with twice the memory for activations.
"""

import contextlib

import torch

Numbers = dict[str, float | bool]


def run(autocast_without_shards: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(0.1 * torch.randn(p.shape, generator=generator))
    x = torch.randn(32, 64, generator=generator)
    seen: list[torch.Tensor] = []
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output))
    sharded = False  # one device: data_parallel_shard_degree 1
    context: contextlib.AbstractContextManager = contextlib.nullcontext()
    if not sharded and autocast_without_shards:
        context = torch.autocast("cpu", dtype=torch.bfloat16)
    with context:
        y = model(x)
    in_fp32 = model[2](model[1](model[0](x)))
    return {
        "bits_of_activations": 8 * seen[0].element_size(),
        "difference_from_fp32": (y.float() - in_fp32).abs().max().item(),
        "activation_kib": seen[0].numel() * seen[0].element_size() / 1024,
        "failed": seen[0].dtype != torch.bfloat16,
    }


def broken() -> Numbers:
    return run(autocast_without_shards=False)


def fixed() -> Numbers:
    return run(autocast_without_shards=True)
