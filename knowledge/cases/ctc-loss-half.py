"""CTC loss of half-precision log-probabilities: torch has no such kernel. In FP32 it works, with
zero_infinity also where an utterance is shorter than its text.
"""

import torch
import torch.nn.functional as F

Numbers = dict[str, float | bool]


def run(in_fp32: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 4, 20, generator=generator).half().requires_grad_(True)
    targets = torch.randint(1, 20, (4, 10), generator=generator)
    target_lengths = torch.full((4,), 10)
    input_lengths = torch.tensor([50, 50, 50, 5])  # the last has fewer frames than letters
    log_probs = logits.float().log_softmax(-1) if in_fp32 else logits.log_softmax(-1)
    refused = False
    loss = float("nan")
    infinite = 0
    try:
        each = F.ctc_loss(log_probs, targets, input_lengths, target_lengths, reduction="none")
        infinite = int(torch.isinf(each).sum())
        total = F.ctc_loss(log_probs, targets, input_lengths, target_lengths, zero_infinity=True)
        total.backward()
        loss = total.item()
    except RuntimeError as error:
        assert "not implemented for 'Half'" in str(error)
        refused = True
    # What rounding log-probabilities to FP16 costs over 50 frames.
    exact = logits.detach().double().log_softmax(-1).max(-1).values.sum(0)
    rounded = logits.detach().log_softmax(-1).double().max(-1).values.sum(0)
    return {
        "refused": int(refused),
        "loss": loss,
        "infinite_without_zero_infinity": infinite,
        "rounding_over_50_frames": (rounded - exact).abs().max().item(),
        "failed": refused,
    }


def broken() -> Numbers:
    return run(in_fp32=False)


def fixed() -> Numbers:
    return run(in_fp32=True)
