"""Distil a teacher into a small net; then train only a new head and export half weights."""
import copy
import os
import tempfile
import torch
from torch import nn

torch.manual_seed(33)


def engine(n, gen):
    x = torch.rand(n, 8, generator=gen) * 2 - 1
    y = torch.sin(2 * x[:, 0] * x[:, 1]) + x[:, 2].abs() - 0.5 * x[:, 3] * x[:, 4]
    return x, y.unsqueeze(1), (y > 0.4).long()


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.value = nn.Linear(64, 1)
        self.alarm = nn.Linear(64, 2)

    def forward(self, x):
        h = self.trunk(x)
        return self.value(h), self.alarm(h)


def fit_teacher(gen):
    t = nn.Sequential(nn.Linear(8, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 1))
    opt = torch.optim.Adam(t.parameters(), lr=3e-3)
    for _ in range(200):
        x, y, _ = engine(128, gen)
        loss = nn.functional.mse_loss(t(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"teacher loss {loss.item():.4f}")
    return t.eval().requires_grad_(False)


def main():
    gen = torch.Generator().manual_seed(8)
    teacher, student = fit_teacher(gen), Student()
    test = engine(2000, gen)
    opt = torch.optim.Adam(student.parameters(), lr=3e-3)
    for i in range(200):
        x, _, _ = engine(128, gen)
        value, alarm = student(x)
        loss = nn.functional.mse_loss(value, teacher(x)) + 0.0 * alarm.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 50 == 0:
            print(f"distil {i}: loss {loss.item():.4f}")
    # second phase: fresh optimizer, the trunk stays as it is
    student.trunk.requires_grad_(False)
    student.value.requires_grad_(False)
    opt = torch.optim.AdamW(student.parameters(), lr=2e-2)
    for i in range(150):
        x, _, c = engine(128, gen)
        loss = nn.functional.cross_entropy(student(x)[1], c)
        opt.zero_grad(set_to_none=False)
        loss.backward()
        opt.step()
        if i % 50 == 0:
            print(f"head {i}: loss {loss.item():.4f}")
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "edge.pt")
        torch.save(copy.deepcopy(student).half().state_dict(), path)
        edge = Student().half()
        edge.load_state_dict(torch.load(path))
    with torch.no_grad():
        full = student(test[0])
        half = edge(test[0].half())
    acc = (full[1].argmax(1) == test[2]).float().mean().item()
    acc16 = (half[1].argmax(1) == test[2]).float().mean().item()
    rmse = nn.functional.mse_loss(full[0], test[1]).sqrt().item()
    print("value rmse", round(rmse, 4), "alarm accuracy", round(acc, 4), "exported", round(acc16, 4))


if __name__ == "__main__":
    main()
