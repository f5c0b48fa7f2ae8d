"""A minimal gated recurrence computed as a parallel scan in log space."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(111)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
BATCH, LENGTH, VOCAB = 24, 40, 8


class LogScan(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x, keep):
        k = self.gate(x)
        log_forget = -F.softplus(k)
        value = self.value(x)
        log_value = torch.where(value >= 0, (F.relu(value) + 0.5).log(), -F.softplus(-value))
        log_input = (-F.softplus(-k) + log_value).masked_fill(~keep[..., None], float("-inf"))
        log_forget = log_forget.masked_fill(~keep[..., None], 0.0)
        total = log_forget.cumsum(dim=1)
        return torch.exp(total + torch.logcumsumexp(log_input - total, dim=1))


class Model(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.scan = LogScan(width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, tokens, keep):
        x = self.embed(tokens)
        return self.head(self.norm(x + self.scan(x, keep)))


def make_batch():
    tokens = torch.randint(1, VOCAB, (BATCH, LENGTH))
    length = torch.randint(LENGTH // 2, LENGTH + 1, (BATCH,))
    position = torch.arange(LENGTH)
    keep = (position < length[:, None]) & (torch.rand(BATCH, LENGTH) < 0.9)
    keep[:, 0] = True
    tokens = tokens.masked_fill(~keep, 0)
    target = torch.where(
        tokens > 4, torch.cummax(tokens.masked_fill(tokens <= 4, 0), dim=1).values, tokens
    )
    return tokens, keep, target


def main():
    model = Model().to(DTYPE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    recent = []
    for step in range(100):
        tokens, keep, target = make_batch()
        logits = model(tokens, keep)
        loss = F.cross_entropy(logits[keep], target[keep])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        recent = [*recent[-9:], loss.item()]
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final {sum(recent) / len(recent):.5f}")


if __name__ == "__main__":
    main()
