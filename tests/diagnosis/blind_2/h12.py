"""Orthogonalised momentum updates for the matrices, AdamW for the rest."""

import os

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(112)
HALF = torch.float32 if os.environ.get("REF") else torch.bfloat16


def newton_schulz(g, rounds=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.to(HALF)
    x = x / (x.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    for _ in range(rounds):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.T if tall else x).to(g.dtype)


class Orthogonal(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p)
                state["momentum"].mul_(group["momentum"]).add_(p.grad)
                direction = newton_schulz(p.grad.add(state["momentum"], alpha=group["momentum"]))
                p.add_(direction, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


def main():
    model = nn.Sequential(
        nn.Linear(16, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 6)
    )
    matrices = [model[0].weight, model[2].weight]
    others = [p for p in model.parameters() if all(p is not m for m in matrices)]
    muon = Orthogonal(matrices, lr=0.03)
    adam = torch.optim.AdamW(others, lr=3e-3)
    mix = torch.randn(16, 6) / 8
    recent = []
    for step in range(100):
        x = torch.randn(64, 16)
        y = torch.sin(2 * x @ mix)
        loss = nn.functional.mse_loss(model(x), y)
        model.zero_grad()
        loss.backward()
        muon.step()
        adam.step()
        for group in muon.param_groups:
            group["lr"] = 0.03 * (1 - step / 100)
        recent = [*recent[-9:], loss.item()]
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final {sum(recent) / len(recent):.5f}")


if __name__ == "__main__":
    main()
