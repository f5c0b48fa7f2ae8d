import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 1))
    model = model.to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(20):
        x = torch.randn(32, 64, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = (model(x).float() - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
