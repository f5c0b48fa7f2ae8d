import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(16, 1), nn.Sigmoid())
        self.criterion = nn.BCELoss()

    def forward(self, x, target):
        with torch.cuda.amp.autocast():
            return self.criterion(self.score(x), target)  # <- error


def main():
    torch.manual_seed(0)
    critic = Critic().to("cuda")
    return critic(torch.randn(8, 16, device="cuda"), torch.ones(8, 1, device="cuda"))


if __name__ == "__main__":
    main()
