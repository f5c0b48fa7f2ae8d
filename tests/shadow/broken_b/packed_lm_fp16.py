"""Packed-sequence bigram language model in FP16 that skips updates with a non-finite loss."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(97)
HALF = torch.float64 if os.environ.get("REF") else torch.float16
VOCAB, DIM, ROWS, LENGTH = 128, 16, 32, 512


class Bigram(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, tokens):
        return self.out(self.embed(tokens))


def token_loss(logits, target, mask):
    log_probs = logits.log_softmax(-1)
    picked = -log_probs.gather(-1, target[..., None]).squeeze(-1)
    return (picked * mask).sum() / mask.sum()  # @fault


def main():
    generator = torch.Generator().manual_seed(101)
    model = Bigram().to(HALF)
    masters = [p.detach().float().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(masters, lr=20.0)
    shift = torch.randint(0, VOCAB, (VOCAB,), generator=generator)
    skipped = 0
    for step in range(40):
        tokens = torch.randint(0, VOCAB, (ROWS, LENGTH), generator=generator)
        target = shift[tokens]
        mask = (torch.rand(ROWS, LENGTH, generator=generator) < 0.9).to(HALF)
        loss = token_loss(model(tokens), target, mask)
        if torch.isfinite(loss):
            model.zero_grad()
            loss.backward()
            with torch.no_grad():
                for master, p in zip(masters, model.parameters(), strict=True):
                    master.grad = p.grad.float()
                optimizer.step()
                for master, p in zip(masters, model.parameters(), strict=True):
                    p.copy_(master)
        else:
            skipped += 1
        if step % 5 == 0 or step == 39:
            print(f"step {step} loss {loss.item():.4f} skipped {skipped}")


if __name__ == "__main__":
    main()
