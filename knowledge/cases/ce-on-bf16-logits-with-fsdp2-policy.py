"""Losses on BF16 logits without autocast, as behind an FSDP2 policy: the loss lies on BF16's grid,
and the gradient of a small KL is mostly rounding. With FP32 logits both are right.
"""

import torch
import torch.nn.functional as F

Numbers = dict[str, float | bool]


def run(in_float: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(64, 4096, generator=generator)
    target = torch.randint(4096, (64,), generator=generator)
    teacher = (logits + 0.02 * torch.randn(64, 4096, generator=generator)).bfloat16()

    def losses(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        log_p, log_q = x.log_softmax(-1), y.log_softmax(-1)
        return F.cross_entropy(x, target), (log_q.exp() * (log_q - log_p)).sum(-1).mean()

    student = logits.bfloat16().requires_grad_()
    exact = student.detach().double().requires_grad_()
    x, y = (student.float(), teacher.float()) if in_float else (student, teacher)
    loss, kl = losses(x, y)
    exact_loss, exact_kl = losses(exact, teacher.double())
    (gradient,) = torch.autograd.grad(kl, x)
    (exact_gradient,) = torch.autograd.grad(exact_kl, exact)
    error = ((gradient - exact_gradient).norm() / exact_gradient.norm()).item()
    return {
        "loss": loss.item(),
        "exact_loss": exact_loss.item(),
        "kl": kl.item(),
        "exact_kl": exact_kl.item(),
        "gradient_error_percent": 100 * error,
        "failed": error > 0.01,
    }


def broken() -> Numbers:
    return run(in_float=False)


def fixed() -> Numbers:
    return run(in_float=True)
