"""Failure rates per kind of component, estimated from counts of failed and running hours."""

import os

import torch

torch.set_num_threads(1)
torch.manual_seed(179)
REAL = torch.float64 if os.environ.get("REF") else torch.float32

KINDS, TRAITS, HOUR = 60, 5, 1.0


def fleet():
    traits = torch.randn(KINDS, TRAITS, dtype=torch.float64)
    effect = 0.5 * torch.randn(TRAITS, dtype=torch.float64)
    log_rate = -17.4 + traits @ effect
    hours = 1e10 * (0.5 + torch.rand(KINDS, dtype=torch.float64))
    failures = torch.poisson(hours * log_rate.exp())
    return traits.to(REAL), hours.to(REAL), failures.to(REAL), effect.to(REAL)


def build(traits):
    effect = torch.zeros(TRAITS, dtype=REAL, requires_grad=True)
    level = torch.tensor(-16.0, dtype=REAL, requires_grad=True)

    def hazard():
        rate = torch.exp(level + traits @ effect)
        return 1.0 - torch.exp(-rate * HOUR)  # @fault

    return hazard, [effect, level]


def objective(hazard, hours, failures):
    p = hazard()
    survived = torch.log1p(-p) * (hours - failures)
    failed = torch.log(p.clamp_min(1e-12)) * failures
    return -(survived + failed).sum() / failures.sum()


traits, hours, failures, truth = fleet()
hazard, params = build(traits)
optimizer = torch.optim.Adam(params, lr=0.03)


def closure():
    optimizer.zero_grad()
    loss = objective(hazard, hours, failures)
    loss.backward()
    return loss


for step in range(150):
    loss = optimizer.step(closure)
    if step % 25 == 0:
        print(f"step {step} loss {loss.item():.4f} level {params[1].item():.3f}")
error = (params[0].detach() - truth).abs().max()
print(f"level {params[1].item():.3f}  largest error of an effect {error.item():.4f}")
