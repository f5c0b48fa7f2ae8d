import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

# Next-item recommender: a wide teacher scores the catalogue once, a small student learns from the stored scores.
torch.manual_seed(5)
ITEMS, USERS, DIM, TEMP = 600, 2000, 32, 3.0


class Scorer(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(DIM, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
        self.out = nn.Linear(hidden, ITEMS)

    def forward(self, x):
        return self.out(self.body(x))


def make_world():
    items = torch.randn(ITEMS, DIM)
    users = torch.randn(USERS, DIM)
    scores = (users @ items.T) * 0.45
    bought = torch.multinomial(scores.softmax(1), 4, replacement=True)
    return users, bought


def train_teacher(users, bought, steps=100):
    teacher = Scorer(128)
    opt = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for step in range(steps):
        i = torch.randint(0, len(users), (64,))
        logits = teacher(users[i])
        loss = F.cross_entropy(logits.repeat_interleave(4, 0), bought[i].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (step + 1) % 50 == 0:
            print(f"teacher {step + 1} loss {loss.item():.4f}")
    return teacher.eval().requires_grad_(False)


class SoftTargets:
    """Teacher outputs kept on disk-sized budget: one pass over the users, then only look-ups."""

    def __init__(self, teacher, users, dtype):
        rows = [F.softmax(teacher(u) / TEMP, -1).to(dtype) for u in users.split(500)]
        self.table = torch.cat(rows)

    def __getitem__(self, i):
        return self.table[i].float()


def distil(student, users, targets, epochs=7):
    opt = torch.optim.Adam(student.parameters(), lr=3e-3)
    loader = DataLoader(TensorDataset(users, torch.arange(len(users))), batch_size=50, shuffle=True)
    for epoch in range(epochs):
        for u, i in loader:
            logp = F.log_softmax(student(u) / TEMP, -1)
            loss = F.kl_div(logp, targets[i], reduction="batchmean") * TEMP ** 2
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 3 == 0:
            print(f"student epoch {epoch} loss {loss.item():.4f}")


@torch.no_grad()
def report(student, teacher, users):
    s, t = student(users), teacher(users)
    kl = F.kl_div(F.log_softmax(s / TEMP, -1), F.log_softmax(t / TEMP, -1), log_target=True, reduction="batchmean")
    top = (s.argmax(1) == t.argmax(1)).float().mean()
    hard = F.kl_div(F.log_softmax(s, -1), F.log_softmax(t, -1), log_target=True, reduction="batchmean")
    print(f"held-out: KL at T={TEMP} {kl.item():.4f}, KL at T=1 {hard.item():.4f}, same top item {top.item():.3f}")


def main():
    users, bought = make_world()
    fit, held = users[:1700], users[1700:]
    teacher = train_teacher(fit, bought[:1700])
    targets = SoftTargets(teacher, fit, torch.float8_e4m3fn)  # @fault
    student = Scorer(48)
    distil(student, fit, targets)
    report(student, teacher, held)


if __name__ == "__main__":
    main()
