"""Small decoder over arithmetic strings; continues from a checkpoint when there is one."""
import os
import random
import tempfile
import torch
import torch.nn as nn
import torch.nn.functional as F

CHARS = "0123456789+=;"
LEN = 6


def strings(n, rng):
    rows = []
    for _ in range(n):
        a, b = rng.randrange(10), rng.randrange(10)
        s = f"{a}+{b}={(a + b) % 10};"
        rows.append([CHARS.index(c) for c in s])
    return torch.tensor(rows)


class Decoder(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.tok, self.pos = nn.Embedding(len(CHARS), d), nn.Embedding(LEN, d)
        self.block = nn.TransformerEncoderLayer(d, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(d, len(CHARS))
        self.register_buffer("mask", torch.triu(torch.full((LEN, LEN), float("-inf")), 1), persistent=False)

    def forward(self, x):
        t = x.shape[1]
        h = self.tok(x) + self.pos.weight[:t]
        return self.head(self.block(h, src_mask=self.mask[:t, :t]))


def step_loss(model, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), x[:, 1:].flatten())


@torch.no_grad()
def answers(model, x):
    pred = model(x[:, :4])[:, -1].argmax(-1)
    return (pred == x[:, 4]).float().mean().item()


def train(path, start_from, upto, seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model = Decoder()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    done = 0
    if start_from:
        ck = torch.load(path)
        model.load_state_dict(ck["model"], assign=True)  # @fault
        opt.load_state_dict(ck["opt"])
        done = ck["done"]
    test = strings(300, random.Random(99))
    recent = []
    while done < upto:
        x = strings(48, rng)
        loss = step_loss(model, x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        done += 1
        recent.append(loss.item())
        if done % 40 == 0:
            mean = sum(recent[-40:]) / len(recent[-40:])
            print(f"{done} loss {mean:.4f} right answers {answers(model, test):.3f}")
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "done": done}, path)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "run.pt")
        train(path, False, 120, seed=1)
        print("-- next allocation --")
        train(path, True, 400, seed=2)
