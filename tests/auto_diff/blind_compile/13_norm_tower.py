import torch
from torch import nn
from torch.nn import functional
from torch._inductor.decomposition import decompositions, fast_random_decomps


@torch.library.custom_op("tower13::standardise", mutates_args=())
def standardise(x: torch.Tensor, eps: float) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)


@standardise.register_fake
def _(x, eps):
    return torch.empty_like(x)


def moments(x, eps):
    mean = x.mean(-1, keepdim=True)
    spread = x.square().mean(-1, keepdim=True) - mean.square()
    return (x - mean) * torch.rsqrt(spread.clamp(min=0) + eps)


decompositions[torch.ops.tower13.standardise.default] = moments
fast_random_decomps.cache_clear()


class Layer(nn.Module):
    def __init__(self, width: int, level: float):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)
        nn.init.constant_(self.inner.bias, level)

    def forward(self, x):
        y = torch.ops.tower13.standardise(self.inner(x), 1e-5)
        return x + self.outer(functional.gelu(y))


class Tower(nn.Module):
    def __init__(self, width: int = 48):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, level) for level in (0.0, 0.5, 2000.0, 0.0))
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(torch.tanh(x))


def build():
    torch.manual_seed(13)
    return Tower().requires_grad_(False)
