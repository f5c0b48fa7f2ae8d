"""Linear plus cross entropy in chunks of tokens: the gradient of the head is added up chunk by
chunk. In BF16 the sum is rounded after every chunk; in an FP32 buffer it is rounded once.
"""

import torch

Numbers = dict[str, float | bool]

TOKENS, WIDTH, VOCABULARY, CHUNKS = 4096, 64, 256, 256


def run(buffer: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(TOKENS, WIDTH, generator=generator).bfloat16()
    weight = (torch.randn(VOCABULARY, WIDTH, generator=generator) / WIDTH**0.5).bfloat16()
    target = (VOCABULARY * torch.rand(TOKENS, generator=generator) ** 3).long()

    def gradient(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sum of the losses and the gradient of their mean with respect to the logits."""
        logits = x @ weight.to(x.dtype).T
        logits = logits if x.dtype == torch.float64 else logits.float()
        p = logits.softmax(-1)
        loss = -p.log().gather(1, y[:, None]).sum()
        return loss, (p - torch.nn.functional.one_hot(y, VOCABULARY)) / TOKENS

    total = torch.zeros(VOCABULARY, WIDTH, dtype=buffer)
    loss = torch.zeros(())
    for x, y in zip(hidden.chunk(CHUNKS), target.chunk(CHUNKS), strict=True):
        part, grad_logits = gradient(x, y)
        loss = loss + part
        total += (grad_logits.bfloat16().T @ x).to(buffer)
    total = total.bfloat16()
    exact_loss, grad_logits = gradient(hidden.double(), target)
    exact = grad_logits.T @ hidden.double()
    error = ((total - exact).norm() / exact.norm()).item()
    return {
        "loss_error_percent": 100 * abs(loss.item() / exact_loss.item() - 1),
        "gradient_error_percent": 100 * error,
        "chunks": CHUNKS,
        "failed": error > 0.01,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
