import torch
from torch import nn


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)).to("cuda").half()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(5):
        x = torch.randn(64, 16, device="cuda", dtype=torch.float16)
        loss = net(x).float().pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)  # <- error
        scaler.update()


if __name__ == "__main__":
    main()
