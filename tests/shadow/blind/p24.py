"""Skip-gram style embedding training with a warm-up of the learning rate, BF16 autocast."""

import os

import torch

torch.set_num_threads(1)
torch.manual_seed(163)
MIXED = not os.environ.get("REF")

WORDS, WIDTH, WARMUP, BASE_LR = 60, 16, 25, 0.4


class SkipGram(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.centre = torch.nn.Parameter(0.3 * torch.randn(WORDS, WIDTH))
        self.context = torch.nn.Parameter(0.3 * torch.randn(WORDS, WIDTH))
        self.mix = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, centre, context, others):
        v = self.mix(self.centre[centre])
        positive = (v * self.context[context]).sum(dim=1)
        negative = torch.einsum("bd,bkd->bk", v, self.context[others].to(v.dtype))
        score = 0.5 * (positive.float() - 1.0).square()
        return score.sum() / 32 + 0.5 * (negative.float() + 1.0).square().sum() / 32


def pairs(size):
    centre = torch.randint(WORDS, (size,))
    context = (centre + torch.randint(1, 4, (size,))) % WORDS
    return centre, context, torch.randint(WORDS, (size, 4))


def learning_rate(step):
    return BASE_LR * (step + 1) / WARMUP  # @fault


model = SkipGram()
optimizer = torch.optim.SGD(model.parameters(), lr=BASE_LR, momentum=0.9)
for step in range(100):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=MIXED):
        loss = model(*pairs(64))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # @fault
    if step % 10 == 0:
        print(f"step {step:3d} lr {group['lr']:.3f} loss {loss.item():.4g}")
