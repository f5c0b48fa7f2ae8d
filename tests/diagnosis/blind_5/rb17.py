import torch
import torch.nn as nn
import torch.nn.functional as F

# Ensemble of experts distilled into one compact network, everything in bfloat16 autocast.
torch.manual_seed(8)
DIM, CLASSES, T = 20, 10, 2.0
CENTRES = torch.randn(CLASSES, DIM) * 0.55


def draw(n):
    y = torch.randint(0, CLASSES, (n,))
    return CENTRES[y] + torch.randn(n, DIM), y


def mlp(width):
    return nn.Sequential(nn.Linear(DIM, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, CLASSES))


def forward(net, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return net(x).float()


def train_expert(k):
    net = mlp(64)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(120):
        x, y = draw(64)
        loss = F.cross_entropy(forward(net, x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"expert {k} loss {loss.item():.4f}")
    return net.requires_grad_(False).eval()


def soft_loss(student_logits, teacher_logits):
    target = F.softmax(teacher_logits / T, dim=-1)
    guess = F.softmax(student_logits / T, dim=-1)  # @fault
    return F.kl_div(guess, target, reduction="batchmean") * T * T


def ece(prob, y, bins=10):
    conf, pred = prob.max(1)
    total = 0.0
    for b in range(bins):
        sel = (conf > b / bins) & (conf <= (b + 1) / bins)
        if sel.any():
            gap = (pred[sel] == y[sel]).float().mean() - conf[sel].mean()
            total += gap.abs().item() * sel.float().mean().item()
    return total


@torch.no_grad()
def score(net, x, y):
    logits = forward(net, x)
    p = logits.softmax(1)
    return (p.argmax(1) == y).float().mean().item(), F.cross_entropy(logits, y).item(), ece(p, y)


def main():
    experts = [train_expert(k) for k in range(3)]
    xv, yv = draw(1500)
    student = mlp(32)
    opt = torch.optim.AdamW(student.parameters(), lr=3e-3)
    for step in range(1, 401):
        x, _ = draw(64)
        with torch.no_grad():
            teacher = torch.stack([forward(e, x) for e in experts]).mean(0)
        loss = soft_loss(forward(student, x), teacher)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 80 == 0:
            acc, nll, cal = score(student, xv, yv)
            print(f"step {step} loss {loss.item():.4f} acc {acc:.4f} nll {nll:.4f} ece {cal:.4f}")
    for k, e in enumerate(experts):
        acc, nll, cal = score(e, xv, yv)
        print(f"expert {k}: acc {acc:.4f} nll {nll:.4f} ece {cal:.4f}")


main()
