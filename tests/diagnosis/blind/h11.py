"""BF16 language model with full-precision copies, warm-up from zero, stopped and continued."""

import io
import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
REF = bool(os.environ.get("REF"))
HALF = torch.float64 if REF else torch.bfloat16
FULL = torch.float64 if REF else torch.float32
STEPS, STOP, WARM, VOCAB, LENGTH = 140, 70, 20, 24, 16


class TinyLM(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, width)
        self.pos = nn.Parameter(torch.zeros(LENGTH, width))
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 96), nn.GELU(), nn.Linear(96, width))
        self.head = nn.Linear(width, VOCAB, bias=False)
        self.head.weight = self.emb.weight
        nn.init.normal_(self.emb.weight, std=0.1)

    def forward(self, tokens):
        x = self.emb(tokens) + self.pos[: tokens.shape[1]]
        q, k, v = self.qkv(self.n1(x)).chunk(3, -1)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        x = x + self.mlp(self.n2(x))
        return self.head(x)


def factor(step):
    if step < WARM:
        return step / WARM
    return max(0.05, (STEPS - step) / (STEPS - WARM))


class Run:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.model = TinyLM().to(HALF)
        self.copies = {n: p.detach().to(FULL).clone() for n, p in self.model.named_parameters()}
        self.opt = torch.optim.AdamW(self.copies.values(), lr=6e-3, weight_decay=0.02)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, factor)
        self.data = torch.Generator().manual_seed(99)
        self.step_no = 0

    def batch(self):
        start = torch.randint(0, VOCAB, (32, 1), generator=self.data)
        stride = torch.randint(1, 5, (32, 1), generator=self.data)
        tokens = (start + stride * torch.arange(LENGTH + 1)) % VOCAB
        noise = torch.rand(tokens.shape, generator=self.data) < 0.02
        other = torch.randint(0, VOCAB, tokens.shape, generator=self.data)
        tokens = torch.where(noise, other, tokens)
        return tokens[:, :-1], tokens[:, 1:]

    def publish(self):
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                p.copy_(self.copies[name])

    def train_step(self):
        tokens, goal = self.batch()
        logits = self.model(tokens).to(FULL)
        loss = F.cross_entropy(logits.flatten(0, 1), goal.flatten())
        self.model.zero_grad()
        loss.backward()
        for name, p in self.model.named_parameters():
            self.copies[name].grad = p.grad.to(FULL)
        torch.nn.utils.clip_grad_norm_(self.copies.values(), 1.0)
        self.opt.step()
        self.sched.step()
        self.publish()
        self.step_no += 1
        return loss.item()

    def save(self):
        file = io.BytesIO()
        parts = {"copies": self.copies, "opt": self.opt.state_dict(), "step": self.step_no}
        parts |= {"sched": self.sched.state_dict(), "data": self.data.get_state()}
        torch.save(parts, file)
        return file.getvalue()

    def load(self, content):
        parts = torch.load(io.BytesIO(content))
        with torch.no_grad():
            for name, value in parts["copies"].items():
                self.copies[name].copy_(value)
        self.publish()
        self.opt.load_state_dict(parts["opt"])
        self.sched.load_state_dict(parts["sched"])
        self.data.set_state(parts["data"])
        self.step_no = parts["step"]


def main():
    run = Run(seed=0)
    while run.step_no < STEPS:
        if run.step_no == STOP:
            content = run.save()
            run = Run(seed=1)
            run.load(content)
        step = run.step_no
        loss = run.train_step()
        if step % 20 == 0 or abs(step - STOP) < 2 or step == STEPS - 1:
            print(f"step {step} lr {run.sched.get_last_lr()[0]:.5f} loss {loss:.4f}")


if __name__ == "__main__":
    main()
