import torch
from torch import nn
from torch.nn import functional


class SlotWriter(nn.Module):
    def __init__(self, slots: int = 12, width: int = 32):
        super().__init__()
        self.slots = slots
        self.start = nn.Parameter(torch.randn(width))
        self.scale = nn.Parameter(torch.rand(width) + 0.5)
        self.value = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, 4)
        self.register_buffer("places", torch.tensor([1, 4, 5, 8, 10]))

    def forward(self, x):
        values = functional.gelu(self.value(self.norm(x)))
        empty = torch.sigmoid(self.start) * self.scale
        table = empty.expand(self.slots, -1)
        table = table.index_put((self.places,), values)
        read = torch.softmax(table @ table.t() / 6.0, -1) @ table
        read = functional.silu(self.mix(read)) + table
        return self.head(read)


def build():
    torch.manual_seed(10)
    return SlotWriter()
