"""Word-level classifier trained with an own Adam whose moments are stored compactly."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(9)
REF = bool(os.environ.get("REF"))
STATE = torch.float64 if REF else torch.float16
if REF:
    torch.set_default_dtype(torch.float64)


class CompactAdam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, state = p.grad, self.state[p]
                if not state:
                    state["t"] = 0
                    state["m"] = torch.zeros_like(p, dtype=STATE)
                    state["v"] = torch.zeros_like(p, dtype=STATE)  # @fault
                state["t"] += 1
                m, v = state["m"], state["v"]
                m.copy_(b1 * m + (1 - b1) * g)
                v.copy_(b2 * v + (1 - b2) * g * g)  # @fault
                m_hat = m.to(p.dtype) / (1 - b1 ** state["t"])
                v_hat = v.to(p.dtype) / (1 - b2 ** state["t"])
                p.addcdiv_(m_hat, v_hat.sqrt() + group["eps"], value=-group["lr"])  # @fault


class Bag(nn.Module):
    def __init__(self, vocab=200, width=32, classes=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.mid = nn.Linear(width, width)
        self.out = nn.Linear(width, classes)

    def forward(self, tokens):
        return self.out(torch.relu(self.mid(self.emb(tokens).mean(1))))


def batches(n, gen):
    topic = torch.randn(200, 4, generator=gen)
    for _ in range(n):
        tokens = torch.randint(0, 200, (128, 24), generator=gen)
        yield tokens, topic[tokens].sum(1).argmax(-1)


def main():
    model = Bag()
    opt = CompactAdam(model.parameters(), lr=2e-3)
    for step, (tokens, label) in enumerate(batches(120, torch.Generator().manual_seed(8))):
        loss = F.cross_entropy(model(tokens), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step < 5 or step % 15 == 0 or step == 119:
            print(f"step {step} loss {loss.item():.5g}")


main()
