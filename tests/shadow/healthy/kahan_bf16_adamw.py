"""Trains a BF16 classifier with an AdamW that carries the rounding error of each weight along."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16


class KahanAdamW(torch.optim.Optimizer):
    """AdamW on low-precision weights: a compensation buffer holds what each update lost."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["m"] = torch.zeros_like(p, dtype=torch.float32)
                    state["v"] = torch.zeros_like(p, dtype=torch.float32)
                    state["compensation"] = torch.zeros_like(p)
                state["step"] += 1
                m, v, comp = state["m"], state["v"], state["compensation"]
                grad = p.grad.float()
                m.mul_(beta1).add_(grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                m_hat = m / (1 - beta1 ** state["step"])
                v_hat = v / (1 - beta2 ** state["step"])
                update = -group["lr"] * m_hat / (v_hat.sqrt() + group["eps"])
                update -= group["lr"] * group["weight_decay"] * p.float()

                comp.add_(update.to(comp.dtype))
                before = p.detach().clone()
                p.add_(comp)
                comp.add_(before.sub_(p))


class Classifier(nn.Module):
    def __init__(self, features=24, width=96, classes=6):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(features, width), nn.GELU(), nn.Linear(width, width), nn.GELU()
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x))


def main():
    teacher = torch.randn(24, 6)
    inputs = torch.randn(1024, 24)
    labels = (inputs @ teacher + 0.5 * torch.sin(3 * inputs[:, :6])).argmax(-1)

    model = Classifier().to(DTYPE)
    optimizer = KahanAdamW(model.parameters(), lr=4e-4)
    for step in range(120):
        rows = torch.randint(0, 1024, (128,))
        logits = model(inputs[rows].to(DTYPE))
        loss = nn.functional.cross_entropy(logits.float(), labels[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")

    with torch.no_grad():
        logits = model(inputs.to(DTYPE)).float()
        final = nn.functional.cross_entropy(logits, labels)
        accuracy = (logits.argmax(-1) == labels).float().mean()
    print(f"final loss {final.item():.4f} accuracy {accuracy.item():.4f}")


if __name__ == "__main__":
    main()
