"""Token regression with a switch layer: each token goes to the buffer slot of its expert."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(8)

HALF = torch.float32 if os.environ.get("REF") else torch.bfloat16
EXPERTS, TOKENS, WIDTH, STEPS = 3, 1536, 32, 80
CAPACITY = 768


class SwitchLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * WIDTH) / WIDTH**0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, 2 * WIDTH, WIDTH) / (2 * WIDTH) ** 0.5)

    def forward(self, x):
        probabilities = torch.softmax(self.router(x).float(), dim=-1).to(x.dtype)
        gate, expert = probabilities.max(dim=-1)
        chosen = F.one_hot(expert, EXPERTS).to(x.dtype)
        position = torch.cumsum(chosen, dim=0) * chosen  # @fault
        slot = position.sum(-1).long() - 1
        keep = slot < CAPACITY
        slot = slot.clamp(max=CAPACITY - 1)

        buffers = x.new_zeros(EXPERTS, CAPACITY, WIDTH)
        buffers[expert[keep], slot[keep]] = x[keep]
        hidden = torch.relu(torch.bmm(buffers, self.up.to(x.dtype)))
        outputs = torch.bmm(hidden, self.down.to(x.dtype))
        y = outputs[expert, slot] * (gate * keep.to(x.dtype)).unsqueeze(-1)
        balance = EXPERTS * (chosen.float().mean(0) * probabilities.float().mean(0)).sum()
        return y, balance


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(8, WIDTH)
        self.switch = SwitchLayer()
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = self.inp(x)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=HALF is torch.bfloat16):
            y, balance = self.switch(h.to(HALF))
        return self.out(y.float()).squeeze(-1), balance


def tokens():
    x = torch.randn(TOKENS, 8)
    return x, torch.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]


def main():
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(STEPS):
        x, target = tokens()
        prediction, balance = model(x)
        error = F.mse_loss(prediction, target)
        loss = error + 0.05 * balance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} error {error.item():.4f} balance {balance.item():.3f}")
    print(f"final error {error.item():.4f}")


if __name__ == "__main__":
    main()
