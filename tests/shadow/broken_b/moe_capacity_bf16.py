"""Top-1 mixture of experts with a capacity limit; dispatch works in the gates' type (BF16)."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(41)
HALF = torch.float64 if os.environ.get("REF") else torch.bfloat16
EXPERTS, CAPACITY, TOKENS, DIM = 2, 1100, 1536, 12


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(DIM, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, DIM, 16) / DIM**0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, 16, DIM) / 16**0.5)

    def forward(self, x):
        gates = self.router(x).softmax(-1)
        choice = gates.argmax(-1)
        mask = nn.functional.one_hot(choice, EXPERTS).to(gates.dtype)
        place = ((torch.cumsum(mask, dim=0) - 1.0) * mask).sum(-1).long()  # @fault
        kept = (place < CAPACITY).to(x.dtype)[:, None]
        slot = choice * CAPACITY + place.clamp(max=CAPACITY - 1)
        buffer = x.new_zeros(EXPERTS * CAPACITY, DIM).index_copy(0, slot, x * kept)
        hidden = torch.relu(torch.bmm(buffer.view(EXPERTS, CAPACITY, DIM), self.up))
        result = torch.bmm(hidden, self.down).view(EXPERTS * CAPACITY, DIM)
        weight = gates.gather(1, choice[:, None])
        return x + result[slot] * weight * kept


def main():
    generator = torch.Generator().manual_seed(43)
    model = Mixture().to(HALF)
    masters = [p.detach().float().clone().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.Adam(masters, lr=1e-2)
    maps = torch.randn(2, DIM, DIM, generator=generator) / DIM**0.5
    for step in range(40):
        x = torch.randn(TOKENS, DIM, generator=generator)
        side = (x[:, :1] > 0).float()
        target = x + torch.relu(x @ maps[0]) * side - torch.relu(x @ maps[1]) * (1 - side)
        loss = (model(x.to(HALF)).float() - target).square().mean()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for master, p in zip(masters, model.parameters(), strict=True):
                master.grad = p.grad.float()
            optimizer.step()
            for master, p in zip(masters, model.parameters(), strict=True):
                p.copy_(master)
        if step % 10 == 0 or step == 39:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
