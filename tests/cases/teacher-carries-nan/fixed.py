"""Self-distillation with Sinkhorn-Knopp centering of the teacher (DINO/SwAV style); the loss in fp32."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
TEACHER_TEMPERATURE, STUDENT_TEMPERATURE = 0.04, 0.5


@torch.no_grad()
def sinkhorn_knopp(teacher_output, iterations=3):
    scores = teacher_output.float() / TEACHER_TEMPERATURE
    q = torch.exp(scores - scores.amax(-1, keepdim=True)).t()  # prototypes x samples
    prototypes, samples = q.shape
    q /= q.sum()
    for _ in range(iterations):
        q /= q.sum(dim=1, keepdim=True)
        q /= prototypes
        q /= q.sum(dim=0, keepdim=True)
        q /= samples
    return (q * samples).t()


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(48, 128), nn.GELU(), nn.Linear(128, 64))
        self.prototypes = nn.Linear(64, 96, bias=False)

    def forward(self, x):
        return self.prototypes(self.backbone(x))


student = Head()
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.AdamW(student.parameters(), lr=5e-3)
centers = torch.randn(20, 48)

for step in range(400):
    x = centers[torch.randint(0, 20, (64,))] + 0.3 * torch.randn(64, 48)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        teacher_output = teacher(x + 0.2 * torch.randn_like(x))
        student_output = student(x + 0.2 * torch.randn_like(x))
    targets = sinkhorn_knopp(teacher_output)
    loss = (
        -(targets * F.log_softmax(student_output.float() / STUDENT_TEMPERATURE, -1)).sum(-1).mean()
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p, q in zip(teacher.parameters(), student.parameters()):
            p.lerp_(q, 0.05)
    if step % 40 == 0 or not loss.isfinite():
        print(
            f"step {step} loss {loss.item():.4f} teacher logit max {teacher_output.max().item():.2f}"
        )
    if not loss.isfinite() and step % 40 == 0:
        break
