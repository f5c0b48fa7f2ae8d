"""Next-symbol GRU trained under FP16 autocast with a gradient scaler and norm clipping."""

import os

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(1)
REF = bool(os.environ.get("REF"))
SYMBOLS = 12


class NextSymbol(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, SYMBOLS)

    def forward(self, tokens):
        x = self.embed(tokens)
        state = x.new_zeros(tokens.shape[0], x.shape[-1])
        logits = []
        for t in range(tokens.shape[1]):
            state = self.cell(x[:, t], state)
            logits.append(self.out(state))
        return torch.stack(logits, dim=1)


def sample(chain, generator, batch=16, length=9):
    tokens = torch.randint(0, SYMBOLS, (batch, 1), generator=generator)
    for _ in range(length):
        following = torch.multinomial(chain[tokens[:, -1]], 1, generator=generator)
        tokens = torch.cat([tokens, following], dim=1)
    return tokens


def main():
    generator = torch.Generator().manual_seed(7)
    chain = torch.softmax(3.0 * torch.randn(SYMBOLS, SYMBOLS, generator=generator), dim=-1)
    model = NextSymbol()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
    for step in range(60):
        tokens = sample(chain, generator)
        with torch.autocast("cpu", dtype=torch.float16, enabled=not REF):
            logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)  # @fault
        scaler.step(optimizer)
        scaler.update()
        if step % 10 == 0 or step == 59:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
