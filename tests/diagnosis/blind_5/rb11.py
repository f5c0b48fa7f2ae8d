"""Pre-emptible training: the queue gives short slots, so each slot starts from the last checkpoint."""
import os
import tempfile
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(21)
VOCAB, LEN, SLOT, SLOTS = 32, 12, 16, 16


class Reverser(nn.Module):
    """Reads a sequence and writes it reversed, all positions at once."""

    def __init__(self, d=40):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d)
        self.pos = nn.Parameter(torch.randn(LEN, d) * 0.3)
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.out = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, VOCAB))

    def forward(self, x):
        h = self.tok(x) + self.pos
        q, k = self.q(self.pos.expand_as(h)), self.k(self.pos.expand_as(h))
        att = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1)
        return self.out(att @ self.v(h))


def data(n):
    x = torch.randint(0, VOCAB, (n, LEN))
    return x, x.flip(1)


def fresh():
    model = Reverser()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 24, growth_interval=200)
    return model, opt, scaler


def save(path, model, opt, scaler, slot):
    state = {"model": model.state_dict(), "opt": opt.state_dict(), "slot": slot}  # @fault
    torch.save(state, path)


def restore(path, model, opt, scaler):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    opt.load_state_dict(state["opt"])
    return state["slot"]  # @fault


def run_slot(path):
    model, opt, scaler = fresh()
    slot = restore(path, model, opt, scaler) if os.path.exists(path) else 0
    total = 0.0
    for _ in range(SLOT):
        x, y = data(48)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten(), reduction="sum")
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        total += loss.item() / y.numel() / SLOT
    save(path, model, opt, scaler, slot + 1)
    with torch.no_grad():
        x, y = data(200)
        acc = (model(x).argmax(-1) == y).float().mean().item()
    if slot % 2 == 0:
        print(f"slot {slot} mean loss {total:.4f} token acc {acc:.4f} scale {scaler.get_scale():g}")


with tempfile.TemporaryDirectory() as d:
    for _ in range(SLOTS):
        run_slot(os.path.join(d, "last.pt"))
