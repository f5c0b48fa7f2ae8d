"""Full bf16 fine-tuning with stochastic rounding in the optimizer."""

import torch
import torch.nn as nn

torch.manual_seed(0)


def copy_stochastic_(target, source):
    """fp32 -> bf16, up or down with the probability of the distance."""
    bits = source.contiguous().view(torch.int32) + torch.randint(
        0, 1 << 16, source.shape, dtype=torch.int32
    )
    target.copy_((bits & -65536).view(torch.float32))


class Adafactorish(torch.optim.Optimizer):
    """Second moment per row and column, no momentum; computes in fp32 whatever the weights are."""

    def __init__(self, params, lr, beta2=0.99, eps=1e-30, stochastic_rounding=True):
        super().__init__(
            params, dict(lr=lr, beta2=beta2, eps=eps, stochastic_rounding=stochastic_rounding)
        )

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                grad, state = p.grad.float(), self.state[p]
                square = grad.square() + group["eps"]
                if "v" not in state:
                    state["v"], state["t"] = torch.zeros_like(square), 0
                state["t"] += 1
                state["v"].lerp_(square, 1 - group["beta2"])
                update = grad * (state["v"] / (1 - group["beta2"] ** state["t"])).rsqrt()
                p32 = p.float().add_(update, alpha=-group["lr"])
                if p.dtype == torch.bfloat16 and group["stochastic_rounding"]:
                    copy_stochastic_(p, p32)
                if p.dtype in (torch.float16, torch.bfloat16):
                    p.copy_(p32)


model = nn.Sequential(
    nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 8)
).bfloat16()
before = [p.detach().clone() for p in model.parameters()]
from transformers.optimization import Adafactor

optimizer = Adafactor(
    model.parameters(), lr=4e-5, scale_parameter=False, relative_step=False, warmup_init=False
)
teacher = torch.randn(32, 8) * 32**-0.5

for step in range(1200):
    x = torch.randn(64, 32)
    loss = (model(x.bfloat16()).float() - x @ teacher).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # @fault
    if step % 150 == 0 or step == 1199:
        moved = sum((p != q).sum().item() for p, q in zip(model.parameters(), before)) / sum(
            p.numel() for p in before
        )
        print(f"step {step} loss {loss.item():.4f} weights that have moved {moved:.1%}")
