"""A retrieval head in FP16 without a scale on its scores; the embeddings grow with the training."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)
HALF = torch.float32 if os.environ.get("REF") else torch.float16


class Retrieval(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.query = nn.Linear(12, width)
        self.key = nn.Linear(12, width)
        self.value = nn.Linear(12, 1)

    def forward(self, x, memory):
        q = self.query(x).to(HALF)
        k = self.key(memory).to(HALF)
        scores = q @ k.t()  # @fault
        weights = scores.float().softmax(-1)
        return (weights @ self.value(nn.functional.normalize(memory, dim=-1))).squeeze(-1)


def main():
    memory = torch.randn(24, 12)
    values = torch.randn(24)
    model = Retrieval()
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-3)
    for step in range(70):
        rows = torch.randint(0, 24, (48,))
        x = (1 + step) * 4.0 * (memory[rows] + 0.1 * torch.randn(48, 12))
        loss = (model(x, (1 + step) * memory) - values[rows]).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
