"""A dead feature gives a NaN gradient and a finite loss in every batch. A loop that skips such
steps without a word runs to its end on weights that never change; one that counts stops early.
"""

import torch

Numbers = dict[str, float | bool]

STEPS = 60


def run(counted: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    master = torch.nn.Parameter(torch.randn(8, 4, generator=generator))
    start = master.detach().clone()
    optimizer = torch.optim.AdamW([master], lr=0.1, weight_decay=0.0)
    steps = skipped = in_a_row = 0
    loss = torch.zeros(())
    noticed = False
    while steps < STEPS and not noticed:
        x = torch.randn(16, 8, generator=generator).bfloat16()
        mask = torch.ones(4, dtype=torch.bfloat16)
        mask[3] = 0  # nothing of this batch uses the last feature
        y = (x @ master.bfloat16()) * mask
        loss = y.square().sum(0).sqrt().mean() / 4  # the root's derivative at 0 is inf
        loss.backward()
        steps += 1
        assert master.grad is not None
        if torch.isfinite(master.grad).all():
            optimizer.step()
            in_a_row = 0
        else:
            skipped += 1
            in_a_row += 1
        noticed = counted and in_a_row >= 5
        optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] = 0.1 * (1 - steps / STEPS)  # the schedule moves on
    return {
        "steps": steps,
        "skipped": skipped,
        "loss": loss.item(),
        "learning_rate_at_the_end": optimizer.param_groups[0]["lr"],
        "change_of_weights": (master.detach() - start).abs().max().item(),
        "failed": skipped == steps and not noticed,
    }


def broken() -> Numbers:
    return run(counted=False)


def fixed() -> Numbers:
    return run(counted=True)
