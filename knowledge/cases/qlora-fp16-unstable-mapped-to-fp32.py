"""A fine-tuning script that maps --fp16 to FP32 for all layers that are not quantised: twice the
memory of what was asked for. With FP16 taken at its word a massive activation overflows; BF16 is
neither.
"""

import torch

Numbers = dict[str, float | bool]


def dtype_of_the_rest(fp16: bool, bf16: bool) -> torch.dtype:
    return torch.float32 if fp16 else torch.bfloat16 if bf16 else torch.float32


def run(fp16: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    asked = torch.float16 if fp16 else torch.bfloat16
    got = dtype_of_the_rest(fp16, not fp16)
    embedding = torch.randn(3200, 64, generator=generator).to(got)
    weight = torch.randn(64, 64, generator=generator)
    x = torch.randn(4, 64, generator=generator)
    x[:, 3] = 30_000.0  # a channel as large as some models have it
    weight[3] = 3.0
    product = x.to(asked) @ weight.to(asked)
    asked_bytes = embedding.numel() * torch.finfo(asked).bits // 8
    got_bytes = embedding.numel() * embedding.element_size()
    return {
        "bytes_over_asked": got_bytes / asked_bytes,
        "infinite_in_asked_dtype": int(torch.isinf(product).sum()),
        "gigabytes_of_7b_rest": 2 * 32_000 * 4096 * embedding.element_size() / 2**30,
        "failed": got != asked,
    }


def broken() -> Numbers:
    return run(fp16=True)


def fixed() -> Numbers:
    return run(fp16=False)
