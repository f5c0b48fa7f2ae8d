"""An MLP with in-place ReLU whose logged metrics are kept in half to save memory."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(12)
REF = bool(os.environ.get("REF"))
HALF = torch.float32 if REF else torch.float16
STEPS = 120


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(20, 64),
            nn.ReLU(inplace=True),
            nn.Linear(64, 64),
            nn.ReLU(inplace=True),
            nn.Linear(64, 4),
        )

    def forward(self, x):
        return self.layers(x)


class Metrics:
    """What the progress line shows; nothing reads it back into the training."""

    def __init__(self):
        self.losses = torch.empty(STEPS, dtype=HALF)
        self.accuracy = torch.zeros((), dtype=HALF)
        self.running = torch.zeros((), dtype=HALF)
        self.seen = torch.zeros((), dtype=HALF)

    @torch.no_grad()
    def add(self, step, loss, logits, labels):
        self.losses[step] = loss
        hit = (logits.argmax(-1) == labels).to(HALF).mean()
        self.accuracy.mul_(0.9).add_(hit, alpha=0.1)
        self.running += loss.to(HALF)
        self.seen += len(labels)

    def line(self):
        return (
            f"mean {self.running.item():.2f} accuracy {self.accuracy.item():.3f} "
            f"seen {self.seen.item():.0f}"
        )


def main():
    teacher = torch.randn(20, 4)
    inputs = torch.randn(1024, 20)
    labels = (inputs @ teacher).argmax(-1)
    model = Net()
    metrics = Metrics()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for step in range(STEPS):
        rows = torch.randint(0, 1024, (96,))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            logits = model(inputs[rows])
        loss = nn.functional.cross_entropy(logits.float(), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        metrics.add(step, loss.detach(), logits.detach(), labels[rows])
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f} {metrics.line()}")
    with torch.no_grad():
        logits = model(inputs)
        final = nn.functional.cross_entropy(logits, labels)
        accuracy = (logits.argmax(-1) == labels).float().mean()
    print(f"final loss {final.item():.4f} accuracy {accuracy.item():.4f}")


if __name__ == "__main__":
    main()
