"""BF16 working weights, FP32 masters and a BF16 momentum; metric counters are plain floats on tensors."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(10)
SIDE = 10


def strokes(n):
    """Which of four directions does a noisy line have?"""
    y = torch.randint(0, 4, (n,))
    yy, xx = torch.meshgrid(torch.arange(SIDE) - 4.5, torch.arange(SIDE) - 4.5, indexing="ij")
    ang = y * (3.14159 / 4) + 0.12 * torch.randn(n)
    off = torch.rand(n) * 4 - 2
    d = (xx * ang.cos()[:, None, None] + yy * ang.sin()[:, None, None] - off[:, None, None]).abs()
    return ((d < 1).float() + 0.4 * torch.randn(n, SIDE, SIDE)).unsqueeze(1), y


class Meter:
    def __init__(self):
        self.hits = torch.zeros((), dtype=torch.float32)
        self.seen = torch.zeros((), dtype=torch.float32)

    def add(self, logits, y):
        self.hits += (logits.argmax(1) == y).float().sum()
        self.seen += len(y)

    def value(self):
        return (self.hits / self.seen).item()


class Masters:
    def __init__(self, model, lr, momentum):
        self.low = list(model.parameters())
        self.full = [p.detach().float() for p in self.low]
        self.mom = [torch.zeros_like(p) for p in self.low]
        self.lr, self.momentum = lr, momentum

    @torch.no_grad()
    def step(self):
        for p, f, m in zip(self.low, self.full, self.mom):
            m.mul_(self.momentum).add_(p.grad)
            f.sub_(self.lr * m.float())
            p.copy_(f)
            p.grad = None


def main():
    net = nn.Sequential(
        nn.Conv2d(1, 10, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(90, 48), nn.ReLU(), nn.Linear(48, 4),
    ).to(torch.bfloat16)
    opt = Masters(net, lr=0.03, momentum=0.9)
    train = Meter()
    xv, yv = strokes(500)
    for step in range(1, 301):
        opt.lr = 0.03 * (1 - step / 320)
        x, y = strokes(32)
        logits = net(x.bfloat16()).float()
        loss = F.cross_entropy(logits, y)
        loss.backward()
        opt.step()
        train.add(logits, y)
        if step % 60 == 0:
            test = Meter()
            with torch.no_grad():
                test.add(net(xv.bfloat16()).float(), yv)
            print(f"step {step} loss {loss.item():.4f} train acc so far {train.value():.4f} test acc {test.value():.4f}")


if __name__ == "__main__":
    main()
