"""Sequence tagger with a length curriculum: short sequences first, longer ones as the training goes on."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(4)
LONGEST, SYMBOLS = 24, 5


class Tagger(nn.Module):
    """The tag depends on the symbol, its left neighbour and the place in the sequence."""

    def __init__(self, d=32):
        super().__init__()
        self.sym, self.left = nn.Embedding(SYMBOLS, d), nn.Embedding(SYMBOLS + 1, d)
        self.place = nn.Embedding(LONGEST, d)
        self.net = nn.Sequential(nn.Linear(3 * d, 64), nn.ReLU(), nn.Linear(64, SYMBOLS))
        self.register_buffer("updates", torch.zeros(()))  # @fault

    def forward(self, x):
        before = F.pad(x[:, :-1], (1, 0), value=SYMBOLS)
        place = self.place.weight[:x.shape[1]].expand(x.shape[0], -1, -1)
        return self.net(torch.cat([self.sym(x), self.left(before), place], -1))

    def current_length(self, grow=20):
        return min(LONGEST, 4 + int(self.updates.item()) // grow)


def sample(n, length):
    x = torch.randint(0, SYMBOLS, (n, length))
    before = F.pad(x[:, :-1], (1, 0))
    return x, (x + before + torch.arange(length)) % SYMBOLS


class MasterAdam:
    """Adam on FP32 copies of the BF16 weights."""

    def __init__(self, params, lr):
        self.low = list(params)
        self.master = [p.detach().float().clone().requires_grad_(True) for p in self.low]
        self.inner = torch.optim.Adam(self.master, lr=lr)

    def step(self):
        for m, p in zip(self.master, self.low):
            m.grad = p.grad.float()
            p.grad = None
        torch.nn.utils.clip_grad_norm_(self.master, 1.0)
        self.inner.step()
        with torch.no_grad():
            for m, p in zip(self.master, self.low):
                p.copy_(m)


@torch.no_grad()
def check(model, data):
    x, y = data
    logits = model(x).float()
    right = (logits.argmax(-1) == y).float()
    return F.cross_entropy(logits.flatten(0, 1), y.flatten()).item(), right.mean().item(), right[:, -5:].mean().item()


def main():
    model = Tagger().to(torch.bfloat16)
    opt = MasterAdam(model.parameters(), lr=5e-3)
    test = sample(256, LONGEST)
    for step in range(1, 541):
        x, y = sample(32, model.current_length())
        loss = F.cross_entropy(model(x).float().flatten(0, 1), y.flatten())
        loss.backward()
        opt.step()
        model.updates += 1
        if step % 90 == 0:
            nll, acc, late = check(model, test)
            print(f"{step} loss {loss.item():.4f} | length {LONGEST}: nll {nll:.4f} acc {acc:.3f} last five {late:.3f}")


if __name__ == "__main__":
    main()
