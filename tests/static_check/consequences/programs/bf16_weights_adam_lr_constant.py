import torch
from torch import nn

LEARNING_RATE = 2e-5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.out = nn.Linear(64, 1)

    def forward(self, x):
        return self.out(self.norm(x))


def main():
    torch.manual_seed(0)
    net = Net().bfloat16().to("cuda")
    params = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(params, lr=LEARNING_RATE)  # <- warning
    for _ in range(20):
        x = torch.randn(32, 64, device="cuda", dtype=torch.bfloat16)
        loss = (net(x).float() - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
