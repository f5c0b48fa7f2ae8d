import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 1).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(5):
        x = torch.randn(64, 16, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(x).float() - 1).pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        optimizer.step()  # <- error


if __name__ == "__main__":
    main()
