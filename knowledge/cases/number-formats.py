"""What a cast does to a number: rounded to its neighbour, to 0, to the largest number or to inf."""

import torch

Numbers = dict[str, float | bool]


def run(near_one: torch.dtype, small: torch.dtype) -> Numbers:
    one = torch.tensor(1.003).to(near_one).item()
    tiny = torch.tensor(1e-8).to(small).item()
    return {
        "one_and_a_bit": one,
        "tiny": tiny,
        "fp16_largest": torch.finfo(torch.float16).max,
        "e4m3_largest": torch.finfo(torch.float8_e4m3fn).max,
        "bf16_spacing_at_1": torch.finfo(torch.bfloat16).eps,
        "failed": one == 1.0 or tiny == 0.0,
    }


def broken() -> Numbers:
    return run(torch.bfloat16, torch.float16)


def fixed() -> Numbers:
    return run(torch.float16, torch.bfloat16)
