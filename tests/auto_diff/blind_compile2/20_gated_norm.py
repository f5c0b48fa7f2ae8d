import torch
from torch import nn
from torch._inductor.decomposition import decompositions, fast_random_decomps


@torch.library.custom_op("block20::gated", mutates_args=())
def gated(x: torch.Tensor, gate: torch.Tensor, eps: float) -> torch.Tensor:
    size = torch.linalg.vector_norm(x, dim=-1, keepdim=True) / x.shape[-1] ** 0.5
    return x / (size + eps) * torch.sigmoid(gate)


@gated.register_fake
def _(x, gate, eps):
    return torch.empty_like(x)


def backward(ctx, grad):
    x, gate = ctx.saved_tensors
    open_ = torch.sigmoid(gate)
    size = x.square().mean(-1, keepdim=True).sqrt()
    scale = 1 / (size + ctx.eps)
    inner = grad * open_
    along = (inner * x).mean(-1, keepdim=True) / size
    return inner * scale - x * along * scale * scale, grad * x * scale * open_ * (1 - open_), None


def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])
    ctx.eps = inputs[2]


gated.register_autograd(backward, setup_context=keep)


def plain(x, gate, eps):
    size = x.square().mean(-1, keepdim=True).sqrt()
    return x * (1 / (size + eps)) / (1 + torch.exp(-gate))


decompositions[torch.ops.block20.gated.default] = plain
fast_random_decomps.cache_clear()


class GatedModel(nn.Module):
    def __init__(self, width: int = 32):
        super().__init__()
        self.enter = nn.Linear(12, width)
        self.gates = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        h = self.enter(x)
        for gate in self.gates:
            h = h + torch.ops.block20.gated(h, gate(h), 1e-5)
        return self.head(h)


def build():
    torch.manual_seed(20)
    return GatedModel()
