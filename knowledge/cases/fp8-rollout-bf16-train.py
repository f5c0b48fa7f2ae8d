"""The rollout engine multiplies with FP8 weights, the trainer with BF16 ones: log-probabilities
differ although the policy is the same. With the same quantised weights on both sides they do not.
"""

import torch

Numbers = dict[str, float | bool]


def to_e4m3(weight: torch.Tensor) -> torch.Tensor:
    """One scale for each row, as an engine loads them."""
    scale = weight.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 448
    return (weight / scale).to(torch.float8_e4m3fn).float() * scale


def run(same_weights: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    hidden, vocabulary = 512, 1000
    master = 0.08 * torch.randn(vocabulary, hidden, generator=generator)
    x = torch.randn(512, hidden, generator=generator)
    exported = master.bfloat16().float()  # what the trainer sends to the engine
    rollout = (x @ to_e4m3(exported).T).log_softmax(-1)
    trainer = (x @ (to_e4m3(exported) if same_weights else exported).T).log_softmax(-1)
    from_master = (x @ to_e4m3(master).T).log_softmax(-1)
    token = torch.multinomial(rollout.exp(), 1, generator=generator)
    difference = (trainer - rollout).gather(1, token)
    k3 = (difference.exp() - 1 - difference).mean().item()
    rest = (from_master - rollout).gather(1, token)
    return {
        "k3_kl": k3,
        "largest_ratio": difference.exp().max().item(),
        "k3_kl_quantised_from_fp32": (rest.exp() - 1 - rest).mean().item(),
        "failed": k3 > 1e-4,
    }


def broken() -> Numbers:
    return run(same_weights=False)


def fixed() -> Numbers:
    return run(same_weights=True)
