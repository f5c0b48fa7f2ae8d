import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)
CLASSES, TEMP = 30, 1.0
centres = torch.randn(CLASSES, 24) * 2.0


def samples(n):
    y = torch.randint(0, CLASSES, (n,))
    return centres[y] + 0.7 * torch.randn(n, 24), y


def mlp(hidden):
    return nn.Sequential(nn.Linear(24, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))


def fit_teacher(steps=120):
    net = mlp(96)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(steps):
        x, y = samples(128)
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return net.eval()


def distill_loss(student_logits, teacher_logits):
    log_s = F.log_softmax(student_logits.float() / TEMP, dim=-1)
    p_t = F.softmax(teacher_logits.float() / TEMP, dim=-1).clamp_min(1e-30)
    kl = (p_t * (p_t.log() - log_s)).sum(-1)
    return kl.mean() * TEMP ** 2


teacher = fit_teacher().to(torch.float16)
student = mlp(24)
opt = torch.optim.Adam(student.parameters(), lr=5e-3)
skipped = 0
for step in range(150):
    x, y = samples(128)
    with torch.no_grad():
        t_logits = teacher(x.to(torch.float16))
    s_logits = student(x)
    loss = 0.7 * distill_loss(s_logits, t_logits) + 0.3 * F.cross_entropy(s_logits, y)
    if not torch.isfinite(loss):
        skipped += 1
        continue
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 15 == 0:
        print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    x, y = samples(3000)
    acc = (student(x).argmax(1) == y).float().mean()
print(f"student accuracy {acc.item():.4f} skipped batches {skipped}")
