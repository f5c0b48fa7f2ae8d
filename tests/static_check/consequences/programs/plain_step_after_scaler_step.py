import torch
from torch import nn


class Learner:
    def __init__(self):
        self.model = nn.Linear(16, 1).to("cuda")
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cuda")

    def update(self, x):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (self.model(x).float() - 1).pow(2).mean()
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.step()  # <- error


def main():
    torch.manual_seed(0)
    learner = Learner()
    for _ in range(5):
        learner.update(torch.randn(64, 16, device="cuda"))


if __name__ == "__main__":
    main()
