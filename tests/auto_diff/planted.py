"""Functions and models with one mistake each, marked `# bad`: the line that loses the digits, and
of a cancellation also the one at which that shows. `CASES` says with which inputs. What auto_diff
names first must be a marked line.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

# Name -> inputs, dtype, policy, whether gradients are asked for.
CASES: dict[str, tuple[list[str], str, str, bool]] = {}


def case(inputs: list[str], dtype: str = "fp16", policy: str = "pure", backward: bool = False):
    def add(function):
        CASES[function.__name__] = (inputs, dtype, policy, backward)
        return function

    return add


@case(["float32[8,512]~normal(0,20)"])
def norm_of_squares(x: Tensor) -> Tensor:
    squares = x * x
    total = squares.sum(-1, keepdim=True)  # bad
    return x / total.sqrt()


@case(["float32[4,64]~normal(0,8)"])
def softmax_by_hand(x: Tensor) -> Tensor:
    weights = torch.exp(x)  # bad
    return weights / weights.sum(-1, keepdim=True)


@case(["float32[16,256]~offset(40)"])
def variance_of_raw_moments(x: Tensor) -> Tensor:
    mean = x.mean(-1)  # bad
    squares = (x * x).mean(-1)  # bad
    return squares - mean * mean  # bad


@case(["float32[16,256]~offset(10)"], "bf16")
def variance_in_bf16(x: Tensor) -> Tensor:
    mean = x.mean(-1)  # bad
    return (x * x).mean(-1) - mean * mean  # bad


@case(["int64[1]<2"], "bf16", "pure")
def rope(start: Tensor) -> Tensor:
    positions = torch.arange(4096, device=start.device).to(torch.bfloat16)  # bad
    rates = 1.0 / (10000.0 ** (torch.arange(0, 32, 2, device=start.device) / 32))
    angles = positions[:, None].float() * rates + start
    return torch.cat([angles.sin(), angles.cos()], -1)


@case(["float32[4096]~uniform(0,1)"], "bf16")
def running_sum(values: Tensor) -> Tensor:
    total = values.new_zeros(())
    for each in values:
        total = total + each  # bad
    return total


@case(["float32[8,64]~normal(0,1)", "mask=bool[8,64]~unmasked"])
def filled_mask(x: Tensor, mask: Tensor) -> Tensor:
    blocked = (~mask).to(x.dtype) * -1e9  # bad
    return (x + blocked).softmax(-1)


@case(["float32[64]~constant(0)"])
def tiny_eps(x: Tensor) -> Tensor:
    return x / (x.abs() + 1e-8)  # bad


@case(["float32[256]~uniform(0.0001,0.001)"], "bf16")
def one_minus_cosine(angle: Tensor) -> Tensor:
    return 1 - torch.cos(angle * 50)  # bad


@case(["float32[32,64]~uniform(0.1,0.5)"])
def product_of_probabilities(p: Tensor) -> Tensor:
    return p.prod(-1).log()  # bad


@case(["float32[2,4000]~ones"], "fp16")
def counted_by_cumsum(mask: Tensor) -> Tensor:
    return mask.cumsum(-1)  # bad


@case(["float32[64]~uniform(300,500)"], "bf16")
def index_of_coordinate(x: Tensor) -> Tensor:
    return (x + 0.25).floor().to(torch.int64).to(torch.float32)  # bad


@case(["float32[64,128]~normal(0,1)", "float32[64,128]~normal(0,1)"], "bf16")
def difference_of_distances(a: Tensor, b: Tensor) -> Tensor:
    far = a.square().sum(-1) + 1000.0  # bad
    near = a.square().sum(-1) + 1000.0 - 0.01 * b.square().sum(-1)
    return far - near  # bad


@case(["float32[512]~uniform(0.9995,1)"], "bf16")
def complement(p: Tensor) -> Tensor:
    return torch.log(1 - p + 1e-6)  # bad


@case(["float32[8,16]~normal(0,1)", "float32[16]~normal(0,1)"], "bf16")
def averaged(x: Tensor, average: Tensor) -> Tensor:
    average = average.clone()
    for step in range(400):
        average = average * 0.999 + x[step % 8] * 0.001  # bad
    return average


@case(["float32[4,8,64,16]~normal(0,12)"], "fp16", "cuda-autocast")
def unscaled_attention(x: Tensor) -> Tensor:
    scores = (x * 8) @ (x * 8).transpose(-1, -2)  # bad
    return (scores / 64).softmax(-1) @ x


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(x)
        x = functional.linear(x * 3000, torch.eye(32).to(x) * 3000)  # bad
        return x / 9e6


@case(["float32[8,32]~normal(0,1)"], "fp16", "cuda-autocast", True)
def overflowing_model(x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return Scaled()(x)


@case(["float32[64,10]~normal(0,1)"], "fp16")
def log_of_softmax(x: Tensor) -> Tensor:
    p = functional.softmax(x * 12, -1)  # bad
    return -p.log().mean()  # bad


@case(["float32[16,4]~uniform(0,1000)"], "bf16")
def box_area(boxes: Tensor) -> Tensor:
    shifted = boxes + 8000.0  # bad
    width = shifted[:, 2] - shifted[:, 0]  # bad
    return width


@case(["float32[300]~uniform(0.99,1)"], "fp16")
def arc(x: Tensor) -> Tensor:
    return torch.acos(torch.clamp(x * x, max=1.0).sqrt())  # bad


@case(["int64[1,300]<2"], "bf16", "pure")
def sinusoids(ids: Tensor) -> Tensor:
    at = torch.arange(300, dtype=torch.bfloat16, device=ids.device)  # bad
    rate = torch.exp(-math.log(1e4) * torch.arange(8, device=ids.device) / 8)
    return (at[:, None] * rate).sin() + ids[:, :8]


class Rotated(nn.Module):
    """Attention as it begins: its weights are small, so that it hardly looks at positions."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.qkv(x) * 0.1).chunk(3, -1)
        at = torch.arange(x.shape[1], dtype=q.dtype, device=x.device)  # bad
        angles = at[:, None] * (1e4 ** (-torch.arange(0, 32, device=x.device) / 32)).to(q.dtype)
        q, k = (each * angles.cos() + each.roll(1, -1) * angles.sin() for each in (q, k))
        return x + functional.scaled_dot_product_attention(q, k, v)


@case(["float32[2,400,32]~normal(0,1)"], "bf16", "cuda-autocast", True)
def rotary_of_the_dtype(x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return Rotated()(x)


@case(["float32[8,8]~normal(0,1)"], "fp16", "cuda-autocast", True)
def tiny_gradient(x: Tensor) -> Tensor:
    y = x.half() * 1e-4
    return (y * y).float().sum()  # bad


@case(["float32[64,64]~normal(0,60)"], "fp16", "cuda-autocast")
def gram(x: Tensor) -> Tensor:
    products = x @ x.T  # bad
    return products.diagonal().float().log()


@case(["float32[512]~uniform(0,1)"], "bf16")
def histogram(x: Tensor) -> Tensor:
    at = (x * 512).floor().long()  # bad
    return torch.zeros(513, device=x.device).index_add(0, at, torch.ones(512, device=x.device))


@case(["float32[4,300]~ones"], "bf16")
def harmonic(x: Tensor) -> Tensor:
    weights = (1 / torch.arange(1, 301, dtype=torch.float32)).to(x)
    total = x.new_zeros(4)
    for at in range(300):
        total = total + x[:, at] * weights[at]  # bad
    return total


@case(["float32[32]~uniform(0.0001,0.0002)"], "fp16")
def inverse_square(x: Tensor) -> Tensor:
    return 1 / (x * x)  # bad


def lines_of(name: str) -> list[int]:
    """The marked lines of one function."""
    import inspect

    modules = {"overflowing_model": Scaled, "rotary_of_the_dtype": Rotated}
    function = modules.get(name, globals()[name])
    source, first = inspect.getsourcelines(function)
    return [first + at for at, line in enumerate(source) if "# bad" in line]
