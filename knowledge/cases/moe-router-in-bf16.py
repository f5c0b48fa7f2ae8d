"""A gate whose logits and probabilities are BF16 gives ties and picks other experts than exact
arithmetic; with an FP32 product and an FP32 softmax of the same BF16 inputs it does not.
"""

import torch

Numbers = dict[str, float | bool]

TOKENS, WIDTH, EXPERTS, CHOSEN = 2048, 512, 128, 8


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(TOKENS, WIDTH, generator=generator).bfloat16()
    gate = (torch.randn(EXPERTS, WIDTH, generator=generator) / WIDTH**0.5).bfloat16()
    probabilities = (x.to(dtype) @ gate.to(dtype).T).softmax(-1)
    chosen = probabilities.topk(CHOSEN).indices.sort().values
    exact = (x.double() @ gate.double().T).topk(CHOSEN).indices.sort().values
    other = (chosen != exact).any(-1).double().mean().item()
    border = probabilities.sort(descending=True).values[:, CHOSEN - 1 : CHOSEN + 1]
    ties = (border[:, 0] == border[:, 1]).double().mean().item()
    return {
        "ties_at_the_border_percent": 100 * ties,
        "tokens_with_other_experts_percent": 100 * other,
        "failed": other > 0.01,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
