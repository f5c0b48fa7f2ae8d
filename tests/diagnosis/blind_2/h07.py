"""Sixteen-bit weights with an AdamW of its own that keeps a compensation for each weight."""

import os

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(107)
HALF = torch.float32 if os.environ.get("REF") else torch.bfloat16


class CompensatedAdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0):
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["m"] = torch.zeros_like(p, dtype=torch.float32)
                    state["v"] = torch.zeros_like(p, dtype=torch.float32)
                    state["lost"] = torch.zeros_like(p)
                state["step"] += 1
                grad = p.grad.float()
                state["m"].lerp_(grad, 1 - b1)
                state["v"].lerp_(grad * grad, 1 - b2)
                m = state["m"] / (1 - b1 ** state["step"])
                v = state["v"] / (1 - b2 ** state["step"])
                update = -group["lr"] * (
                    m / (v.sqrt() + group["eps"]) + group["weight_decay"] * p.float()
                )
                wanted = state["lost"].float() + update
                before = p.clone()
                p.copy_((before.float() + wanted).to(p.dtype))
                state["lost"].copy_((before.float() - p.float() + wanted).to(p.dtype))


def main():
    model = nn.Sequential(
        nn.Linear(16, 128),
        nn.LayerNorm(128),
        nn.GELU(),
        nn.Linear(128, 128),
        nn.GELU(),
        nn.Linear(128, 4),
    ).to(HALF)
    optimizer = CompensatedAdamW(model.parameters(), lr=1.5e-4, weight_decay=0.01)
    mix = torch.randn(16, 4) / 4
    recent = []
    for step in range(150):
        x = torch.randn(48, 16)
        y = torch.sin(2 * x @ mix)
        loss = (model(x.to(HALF)).float() - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recent = [*recent[-19:], loss.item()]
        if step % 15 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final {sum(recent) / len(recent):.5f}")


if __name__ == "__main__":
    main()
