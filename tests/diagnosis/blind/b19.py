"""BF16 sequence tagger with full-precision weight copies; the run is split in two legs."""

import io
import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
REF = bool(os.environ.get("REF"))
HALF = torch.float64 if REF else torch.bfloat16
FULL = torch.float64 if REF else torch.float32
STEPS, SPLIT = 130, 80


class Tagger(nn.Module):
    def __init__(self, vocab=40, width=48, tags=6):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.out = nn.Linear(width, tags)

    def forward(self, tokens):
        h = self.emb(tokens)
        h = h + F.relu(self.conv(h.transpose(1, 2))).transpose(1, 2)
        return self.out(h)


class Session:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.model = Tagger().to(HALF)
        self.masters = [p.detach().to(FULL).clone() for p in self.model.parameters()]
        self.opt = torch.optim.AdamW(self.masters, lr=4e-3, weight_decay=0.01)
        self.sched = torch.optim.lr_scheduler.LinearLR(self.opt, 1.0, 0.1, total_iters=STEPS)
        self.step_no = 0

    def train_step(self, tokens, tags):
        logits = self.model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1).to(FULL), tags.flatten())
        self.model.zero_grad()
        loss.backward()
        for m, p in zip(self.masters, self.model.parameters(), strict=True):
            m.grad = p.grad.to(FULL)
        self.opt.step()
        self.sched.step()
        with torch.no_grad():
            for m, p in zip(self.masters, self.model.parameters(), strict=True):
                p.copy_(m)  # @fault
        self.step_no += 1
        return loss.item()

    def save(self, file):
        state = {
            "model": self.model.state_dict(),
            "opt": self.opt.state_dict(),
            "sched": self.sched.state_dict(),
            "step": self.step_no,
        }
        torch.save(state, file)

    def load(self, file):
        state = torch.load(file)
        self.model.load_state_dict(state["model"])  # @fault
        self.opt.load_state_dict(state["opt"])
        self.sched.load_state_dict(state["sched"])
        self.step_no = state["step"]


def sentences(gen, n=32, length=20):
    tokens = torch.randint(0, 40, (n, length), generator=gen)
    before = torch.roll(tokens, 1, dims=1)
    return tokens, (tokens * 7 + before // 8) % 6


def leg(session, gen, until):
    while session.step_no < until:
        step = session.step_no
        loss = session.train_step(*sentences(gen))
        if step % 20 == 0 or abs(step - SPLIT) < 3 or step == STEPS - 1:
            print(f"step {step} loss {loss:.4f}")


def main():
    gen = torch.Generator().manual_seed(12)
    first = Session(seed=1)
    leg(first, gen, SPLIT)
    disk = io.BytesIO()
    first.save(disk)
    del first

    disk.seek(0)
    second = Session(seed=2)
    second.load(disk)
    leg(second, gen, STEPS)
    with torch.no_grad():
        tokens, tags = sentences(gen, n=200)
        acc = (second.model(tokens).argmax(-1) == tags).double().mean().item()
    print(f"accuracy {acc:.4f}")


if __name__ == "__main__":
    main()
