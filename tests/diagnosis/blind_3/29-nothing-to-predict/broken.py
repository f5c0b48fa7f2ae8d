"""Masked token prediction on short sequences; one token in ten is hidden."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(24)
VOCABULARY, LENGTH, HIDDEN = 30, 10, 30


def batch(n=2):
    start = torch.randint(0, VOCABULARY, (n, 1))
    ids = (start + 3 * torch.arange(LENGTH)) % VOCABULARY
    hide = torch.rand(n, LENGTH) < 0.1
    return ids.masked_fill(hide, HIDDEN), ids.masked_fill(~hide, -100)


class Predictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY + 1, 24)
        self.mix = nn.Sequential(nn.Linear(24 * LENGTH, 128), nn.GELU(), nn.Linear(128, 24 * LENGTH))
        self.out = nn.Linear(24, VOCABULARY)

    def forward(self, ids):
        h = self.embed(ids)
        return self.out(h + self.mix(h.flatten(1)).view_as(h))


model = Predictor()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
for step in range(120):
    ids, labels = batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(ids)
    use = (labels != -100).float()
    each = -logits.float().log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None]).squeeze(-1)
    loss = (each * use).sum() / use.sum()  # @fault
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 10 == 0 or step == 119:
        print(f"step {step} loss {loss.item():.4f}")
