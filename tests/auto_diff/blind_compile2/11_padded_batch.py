import torch
from torch import nn
from torch.nn import functional


class Reader(nn.Module):
    def __init__(self, width: int = 24):
        super().__init__()
        self.words = nn.Embedding(120, width)
        self.cell = nn.GRUCell(width, width)
        self.wide = nn.Linear(width, 4)
        self.narrow = nn.Linear(width, 4)

    def forward(self, tokens, lengths):
        lengths = lengths + 1
        longest = int(lengths.max().item())
        seen = self.words(tokens[:, :longest])
        state = seen.new_zeros(tokens.shape[0], seen.shape[-1])
        total = torch.zeros_like(state)
        for place in range(longest):
            alive = (place < lengths).unsqueeze(-1)
            state = torch.where(alive, self.cell(seen[:, place], state), state)
            total = total + torch.where(alive, state, torch.zeros_like(state))
        mean = total / lengths.unsqueeze(-1)
        head = self.wide if longest > 4 else self.narrow
        return functional.log_softmax(head(mean), -1)


def build():
    torch.manual_seed(11)
    return Reader()
