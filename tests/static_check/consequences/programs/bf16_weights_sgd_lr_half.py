import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(64, 1).to("cuda", torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        x = torch.randn(32, 64, device="cuda", dtype=torch.bfloat16)
        loss = (model(x).float() - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
