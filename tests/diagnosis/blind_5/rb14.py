import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(17)
CLASSES, SIDE = 6, 12
PROTOS = F.interpolate(torch.randn(CLASSES, 1, 4, 4), size=SIDE, mode="bilinear")


def load_batch(n):
    y = torch.randint(0, CLASSES, (n,))
    x = PROTOS[y] + 1.0 * torch.randn(n, 1, SIDE, SIDE)
    return x, y


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.GroupNorm(3, 12), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.fc = nn.Linear(16 * 9, CLASSES)

    def forward(self, x):
        return self.fc(self.conv(x).flatten(1))


class Trainer:
    def __init__(self, model, lr=0.05, max_norm=1.0, amp=True):
        self.model, self.amp, self.max_norm = model, amp, max_norm
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12, growth_interval=1000)

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16, enabled=self.amp):
            logits = self.model(x)
        loss = F.cross_entropy(logits.float(), y)
        self.scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)  # @fault
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    @torch.no_grad()
    def accuracy(self, x, y):
        self.model.eval()
        acc = (self.model(x).argmax(1) == y).float().mean().item()
        self.model.train()
        return acc


def main():
    trainer = Trainer(SmallNet())
    xv, yv = load_batch(400)
    avg = 0.0
    for step in range(1, 181):
        avg += trainer.step(*load_batch(24)) / 30
        if step % 30 == 0:
            print(f"[{step:3d}] loss {avg:.4f} val acc {trainer.accuracy(xv, yv):.4f} scale {trainer.scaler.get_scale():g}")
            avg = 0.0


if __name__ == "__main__":
    main()
