import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(8)
ITEMS, HIST, DIM = 120, 10, 32


class HistoryEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.item = nn.Embedding(ITEMS + 1, DIM, padding_idx=0)
        self.q = nn.Linear(DIM, DIM)
        self.k = nn.Linear(DIM, DIM)
        self.v = nn.Linear(DIM, DIM)
        self.out = nn.Linear(2 * DIM, 1)

    def forward(self, history, candidate):
        h = self.item(history)
        c = self.item(candidate)
        score = torch.bmm(self.k(h), self.q(c)[:, :, None]).squeeze(-1) / DIM ** 0.5
        pad = (history == 0).float()
        score = score + (pad * -1e9).to(score.dtype)  # @fault
        weight = F.softmax(score, dim=-1)
        pooled = torch.bmm(weight[:, None, :].to(h.dtype), self.v(h).to(h.dtype)).squeeze(1)
        return self.out(torch.cat([pooled, c], dim=-1)).squeeze(-1)


group = torch.randint(0, 8, (ITEMS + 1,))


def sessions(n, step):
    g = torch.randint(0, 8, (n,))
    lengths = torch.randint(1, HIST + 1, (n,))
    if step >= 40:
        lengths[torch.rand(n) < 0.02] = 0
    hist = torch.zeros(n, HIST, dtype=torch.long)
    members = [torch.nonzero(group[1:] == i).squeeze(1) + 1 for i in range(8)]
    cand = torch.randint(1, ITEMS + 1, (n,))
    for i in range(n):
        pool = members[g[i]]
        k = int(lengths[i])
        hist[i, :k] = pool[torch.randint(0, pool.numel(), (k,))]
        if torch.rand(()) < 0.5:
            cand[i] = pool[torch.randint(0, pool.numel(), (1,))]
    return hist, cand, (group[cand] == g).float()


model = HistoryEncoder()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(200):
    hist, cand, y = sessions(96, step)
    with torch.autocast("cpu", dtype=torch.float16):
        logit = model(hist, cand)
    loss = F.binary_cross_entropy_with_logits(logit.float(), y)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    if step % 20 == 0:
        print(f"step {step} bce {loss.item():.4f} scale {scaler.get_scale():g}")
with torch.no_grad():
    hist, cand, y = sessions(1000, 200)
    with torch.autocast("cpu", dtype=torch.float16):
        p = model(hist, cand).float()
    val = F.binary_cross_entropy_with_logits(p, y)
print(f"validation bce {val.item():.4f} scale {scaler.get_scale():g}")
