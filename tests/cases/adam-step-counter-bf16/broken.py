"""Fine-tune a small regression head; activations in bf16, weights and optimizer in fp32."""

import math

import torch
import torch.nn as nn

torch.set_default_dtype(torch.bfloat16)  # whatever is new shall be bf16
torch.manual_seed(0)


class AdamW(torch.optim.Optimizer):
    """Our own AdamW: fp32 moments, step kept as a tensor so that it can be captured."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = torch.tensor(0.0)  # @fault
                    state["exp_avg"] = torch.zeros_like(p, dtype=torch.float32)
                    state["exp_avg_sq"] = torch.zeros_like(p, dtype=torch.float32)
                state["step"] += 1  # @fault
                state["exp_avg"].lerp_(p.grad.float(), 1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(
                    p.grad.float(), p.grad.float(), value=1 - beta2
                )
                correction1 = 1 - beta1 ** state["step"].item()
                correction2 = 1 - beta2 ** state["step"].item()
                denominator = (state["exp_avg_sq"] / correction2).sqrt().add_(group["eps"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.addcdiv_(state["exp_avg"] / correction1, denominator, value=-group["lr"])


model = nn.Sequential(
    nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1)
).float()
optimizer = AdamW(model.parameters(), lr=3e-5)
teacher = torch.randn(32, 1, dtype=torch.float32) / math.sqrt(32)

for step in range(2500):
    x = torch.randn(64, 32, dtype=torch.float32)
    y = 3 * x @ teacher
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prediction = model(x)
    loss = (prediction.float() - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 250 == 0 or step == 2499:
        print(
            f"step {step} loss {loss.item():.4f} t {next(iter(optimizer.state.values()))['step'].item():.0f}"
        )
