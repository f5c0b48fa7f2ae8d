import torch
from torch import nn
from torch.cuda.amp import GradScaler


class Trainer:
    def __init__(self, lr=0.05):
        self.model = nn.Linear(16, 1).to(device="cuda", dtype=torch.half)
        self.optim = torch.optim.SGD(self.model.parameters(), lr=lr)
        self.scaler = GradScaler()

    def step(self, x):
        self.optim.zero_grad()
        loss = self.model(x).float().pow(2).mean()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optim)  # <- error
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optim)  # <- error
        self.scaler.update()
        return loss.item()


def main():
    torch.manual_seed(0)
    trainer = Trainer()
    for _ in range(5):
        print(trainer.step(torch.randn(64, 16, device="cuda", dtype=torch.half)))


if __name__ == "__main__":
    main()
