import torch
from torch import nn

SCALE = 1024.0


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)).to("cuda").half()
    masters = [p.detach().float().requires_grad_() for p in net.parameters()]
    optimizer = torch.optim.SGD(masters, lr=0.05)
    for _ in range(5):
        x = torch.randn(64, 16, device="cuda", dtype=torch.float16)
        loss = net(x).float().pow(2).mean()
        net.zero_grad()
        (loss * SCALE).backward()
        for master, p in zip(masters, net.parameters(), strict=True):
            master.grad = p.grad.float() / SCALE
        optimizer.step()
        with torch.no_grad():
            for master, p in zip(masters, net.parameters(), strict=True):
                p.copy_(master)


if __name__ == "__main__":
    main()
