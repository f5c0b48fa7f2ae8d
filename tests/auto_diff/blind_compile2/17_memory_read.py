import torch
from torch import nn
from torch.nn import functional


@torch.library.custom_op("recall17::store", mutates_args=())
def store(bank: torch.Tensor, rows: torch.Tensor, start: int) -> torch.Tensor:
    bank[start : start + rows.shape[0]] = rows
    return rows.norm(dim=-1)


@store.register_fake
def _(bank, rows, start):
    return rows.new_empty(rows.shape[0])


class Recall(nn.Module):
    """Keeps the newest keys in a bank and reads from it by similarity."""

    def __init__(self, width: int = 16, places: int = 24):
        super().__init__()
        self.register_buffer("bank", 0.1 * torch.randn(places, width))
        self.key = nn.Linear(12, width)
        self.out = nn.Linear(width, 3)

    def forward(self, x):
        keys = functional.normalize(self.key(x), dim=-1)
        torch.ops.recall17.store(self.bank, keys, 4)
        similar = torch.softmax(4 * keys @ self.bank.t(), -1)
        return self.out(similar @ self.bank)


def build():
    torch.manual_seed(17)
    return Recall().requires_grad_(False)
