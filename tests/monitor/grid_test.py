"""Whether all values of a tensor are numbers of FP16 or BF16, against torch's own rounding."""

from __future__ import annotations

import pytest
import torch
from mpnanny._core import grid

FORMATS = (torch.float16, torch.bfloat16)


def by_torch(values: torch.Tensor) -> list[bool]:
    finite = values[values.isfinite()]
    return [bool((finite.to(each).to(finite.dtype) == finite).all()) for each in FORMATS]


def tensors(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    found: dict[str, torch.Tensor] = {"empty": torch.zeros(0, dtype=dtype)}
    for spread in (1e-44, 1e-39, 1e-8, 1e-6, 0.02, 1.0, 300.0, 1e5, 1e38):
        values = torch.randn(5001, dtype=dtype) * spread
        found[f"normal {spread}"] = values
        for each in FORMATS:
            rounded = values.to(each).to(dtype)
            found[f"{each} {spread}"] = rounded
            odd = rounded.clone()
            odd[4999] = 0.1
            found[f"{each} {spread} but one"] = odd
            bad = rounded.clone()
            bad[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
            found[f"{each} {spread} and NaN"] = bad
            found[f"{each} {spread} every other"] = torch.stack((rounded, values), dim=1)[:, 0]
            found[f"{each} {spread} transposed"] = rounded[:5000].view(50, 100).t()
    found["zeros"] = torch.zeros(100, dtype=dtype)
    found["least"] = torch.full((20,), 2.0**-149, dtype=dtype)
    found["subnormal"] = torch.arange(64, dtype=dtype) * 2.0**-24
    found["between subnormals"] = torch.arange(64, dtype=dtype) * 2.0**-25
    found["largest"] = torch.full((20,), 65504.0, dtype=dtype)
    found["too large"] = torch.full((20,), 65536.0, dtype=dtype)
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_what_rounding_each_value_gives(dtype):
    for name, values in tensors(dtype).items():
        found = grid(values)
        assert found is not None
        assert list(found[1:3]) == by_torch(values), name
        assert found[3] == values.numel()
        assert found[4] == int(values.isfinite().sum()) and found[5] == int((values == 0).sum())


def test_what_it_is_called():
    torch.manual_seed(0)
    values = 0.02 * torch.randn(4096)
    images = torch.randint(0, 256, (4096,)) / 256
    names = {
        "none": values,
        "fp16": values.half().float(),
        "bf16": values.bfloat16().float(),
        "trivial": images,
        "unknown": values.half(),
    }
    for name, each in names.items():
        found = grid(each)
        assert found is not None and found[0] == name
    for each in (
        torch.ones(64),
        torch.arange(200.0),
        torch.eye(64),
        2.0 ** torch.arange(-9.0, 9.0),
    ):
        found = grid(each)
        assert found is not None and found[0] == "trivial"
