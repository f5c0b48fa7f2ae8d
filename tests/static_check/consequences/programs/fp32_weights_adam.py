import torch
from torch import nn


def main():
    torch.manual_seed(0)
    table = nn.Embedding(100, 8).to("cuda")
    optimizer = torch.optim.Adam(table.parameters(), lr=1e-3)
    for _ in range(3):
        rows = torch.randint(50, (16,), device="cuda")
        loss = (table(rows) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
