"""A LayerNorm weight that every tensor-parallel rank holds a copy of. One rank clips its gradients
and the others do not: the copies, equal at the start, part a little more at every step.
"""

import torch

Numbers = dict[str, float | bool]

RANKS, STEPS = 4, 200


def run(all_clip: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    copies = [torch.nn.Parameter(torch.ones(64)) for _ in range(RANKS)]
    optimizers = [torch.optim.Adam([copy], lr=1e-3) for copy in copies]
    for _ in range(STEPS):
        # The same gradient on every rank; its norm differs from step to step.
        size = 10.0 ** torch.empty(()).uniform_(-2, 1, generator=generator).item()
        gradient = size * (torch.randn(64, generator=generator) + 0.5)
        for rank, (copy, optimizer) in enumerate(zip(copies, optimizers, strict=True)):
            copy.grad = gradient.clone()
            if all_clip or rank == 0:
                torch.nn.utils.clip_grad_norm_([copy], 1.0)
            optimizer.step()
    stacked = torch.stack([copy.detach() for copy in copies])
    apart = (stacked - stacked[0]).abs().max().item()
    moved = (stacked[0] - 1).abs().max().item()
    return {
        "ranks": RANKS,
        "steps": STEPS,
        "largest_difference": apart,
        "largest_change_since_start": moved,
        "difference_percent_of_change": 100 * apart / moved,
        "failed": apart > 0,
    }


def broken() -> Numbers:
    return run(all_clip=False)


def fixed() -> Numbers:
    return run(all_clip=True)
