"""Semi-supervised classifier with an averaged teacher; the teacher is stored in BF16."""

import copy
import os

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(4)
HALF = torch.float64 if os.environ.get("REF") else torch.bfloat16
DECAY = 0.99


def make_net():
    layers = [nn.Linear(20, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 5)]
    for layer in layers[::2]:
        nn.init.xavier_normal_(layer.weight, gain=1.6)
    return nn.Sequential(*layers)


@torch.no_grad()
def update_teacher(teacher, student):
    for averaged, current in zip(teacher.parameters(), student.parameters(), strict=True):
        averaged.lerp_(current.to(averaged.dtype), 1 - DECAY)  # @fault


def main():
    generator = torch.Generator().manual_seed(21)
    centres = torch.randn(5, 20, generator=generator) * 0.7
    student = make_net()
    teacher = copy.deepcopy(student).to(HALF).requires_grad_(False)  # @fault
    optimizer = torch.optim.Adam(student.parameters(), lr=7e-4)

    def draw(n):
        label = torch.randint(0, 5, (n,), generator=generator)
        return centres[label] + 0.5 * torch.randn(n, 20, generator=generator), label

    test_x, test_y = draw(1000)
    for step in range(150):
        x, y = draw(32)
        unlabelled, _ = draw(64)
        with torch.no_grad():
            target = teacher(unlabelled.to(HALF)).float().softmax(-1)
        consistency = F.mse_loss(student(unlabelled).softmax(-1), target)
        loss = F.cross_entropy(student(x), y) + 2.0 * consistency
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update_teacher(teacher, student)
        if step % 25 == 0 or step == 149:
            with torch.no_grad():
                teacher_loss = F.cross_entropy(teacher(test_x.to(HALF)).float(), test_y)
            print(f"step {step} loss {loss.item():.4f} teacher loss {teacher_loss.item():.4f}")


if __name__ == "__main__":
    main()
