"""Semi-supervised training: an averaged teacher labels the unlabelled part for the student."""

import copy
import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(23)
if os.environ.get("REF"):
    torch.set_default_dtype(torch.float64)

FEATURES, CLASSES, STEPS = 10, 4, 150


def student_net(width=48):
    return nn.Sequential(
        nn.Linear(FEATURES, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, CLASSES),
    )


class MeanTeacher:
    def __init__(self, student, decay=0.95):
        self.student, self.decay = student, decay
        self.teacher = copy.deepcopy(student).requires_grad_(False)
        self.teacher.eval()

    @torch.no_grad()
    def update(self):
        pairs = zip(self.teacher.parameters(), self.student.parameters(), strict=True)  # @fault
        for t, s in pairs:
            t.lerp_(s, 1 - self.decay)

    @torch.no_grad()
    def label(self, x):
        return self.teacher(x).softmax(-1)  # @fault


def make_data(gen):
    centres = 1.3 * torch.randn(CLASSES, FEATURES, generator=gen)
    scale = torch.linspace(0.5, 6.0, FEATURES)
    shift = torch.linspace(-15.0, 15.0, FEATURES)

    def draw(n):
        y = torch.randint(0, CLASSES, (n,), generator=gen)
        x = centres[y] + torch.randn(n, FEATURES, generator=gen)
        return x * scale + shift, y

    return draw


def accuracy(net, x, y):
    was = net.training
    net.eval()
    with torch.no_grad():
        acc = (net(x).argmax(-1) == y).double().mean().item()
    net.train(was)
    return acc


def main():
    gen = torch.Generator().manual_seed(31)
    draw = make_data(gen)
    x_lab, y_lab = draw(64)
    x_val, y_val = draw(2000)
    student = student_net()
    mean = MeanTeacher(student)
    opt = torch.optim.Adam(student.parameters(), lr=3e-3)
    for step in range(STEPS):
        pick = torch.randint(0, len(x_lab), (32,), generator=gen)
        x_un, _ = draw(96)
        weight = 5.0 * min(1.0, step / 40)
        logits = student(torch.cat([x_lab[pick], x_un]))
        supervised = F.cross_entropy(logits[:32], y_lab[pick])
        agree = F.mse_loss(logits[32:].softmax(-1), mean.label(x_un))
        loss = supervised + weight * CLASSES * agree
        opt.zero_grad()
        loss.backward()
        opt.step()
        mean.update()
        if step % 25 == 0 or step == STEPS - 1:
            accs = accuracy(student, x_val, y_val), accuracy(mean.teacher, x_val, y_val)
            print(
                f"step {step} sup {supervised.item():.4f} agree {agree.item():.4f} "
                f"student {accs[0]:.4f} teacher {accs[1]:.4f}"
            )


if __name__ == "__main__":
    main()
