import math
import torch
import torch.nn as nn
import torch.nn.functional as F

# A key-value reader: causal decoder with padding, impossible tokens are masked out of the logits.
torch.manual_seed(7)
KEYS, VALS, PAIRS = 8, 8, 4
PAD = KEYS + VALS
VOCAB = PAD + 1
LEN = 2 * PAIRS + 1


def batch(n):
    x = torch.full((n, LEN), PAD)
    y = torch.empty(n, dtype=torch.long)
    for i in range(n):
        used = int(torch.randint(2, PAIRS + 1, ()))
        k = torch.randperm(KEYS)[:used]
        v = torch.randint(KEYS, KEYS + VALS, (used,))
        ask = int(torch.randint(0, used, ()))
        seq = torch.stack([k, v], 1).flatten()
        x[i, LEN - 1 - 2 * used:LEN - 1] = seq
        x[i, -1] = k[ask]
        y[i] = v[ask]
    return x, y


class Reader(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.tok, self.prev = nn.Embedding(VOCAB, d), nn.Embedding(VOCAB, d)
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.out = nn.Linear(d, VOCAB)
        ban = torch.zeros(VOCAB)
        ban[:KEYS] = -math.inf
        ban[PAD] = -math.inf
        self.register_buffer("ban", ban)

    def forward(self, x):
        before = torch.roll(x, 1, 1)
        h = self.tok(x) + self.prev(before)
        score = self.q(h[:, -1:]) @ self.k(h).transpose(1, 2) / 48 ** 0.5
        score = score.masked_fill((x == PAD)[:, None], -math.inf)
        return self.out((score.softmax(-1) @ self.v(h))[:, 0]) + self.ban


def main():
    model = Reader()
    total = 450
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    pool = batch(3000)
    xv, yv = batch(400)
    for step in range(total):
        lr = 5e-3 * 0.5 * (1 + math.cos(math.pi * (step + 1) / total))
        opt.param_groups[0]["lr"] = lr
        i = torch.randint(0, 3000, (64,))
        loss = F.cross_entropy(model(pool[0][i]), pool[1][i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (step + 1) % 75 == 0:
            with torch.no_grad():
                logits = model(xv)
            acc = (logits.argmax(1) == yv).float().mean().item()
            print(f"step {step + 1} lr {lr:.2e} loss {loss.item():.6f} acc {acc:.4f} lowest logit {logits.min().item()}")


main()
