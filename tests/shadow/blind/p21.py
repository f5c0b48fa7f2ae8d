"""Text-like classification with an Adam whose two moments are stored in eight bits per block."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(149)
EIGHT_BIT = not os.environ.get("REF")


class Stored:
    """A tensor kept as integers with the largest magnitude of each block of 64 as its scale."""

    def __init__(self, like, signed):
        self.levels = 127 if signed else 255
        self.kind = torch.int8 if signed else torch.uint8
        self.shape, self.count = like.shape, like.numel()
        self.write(torch.zeros_like(like))

    def write(self, value):
        if not EIGHT_BIT:
            self.codes = value
            return
        blocks = nn.functional.pad(value.flatten(), (0, -self.count % 64)).view(-1, 64)
        self.top = blocks.abs().amax(dim=1, keepdim=True).clamp_min(1e-30)
        self.codes = (blocks / self.top * self.levels).round().to(self.kind)  # @fault

    def read(self):
        if not EIGHT_BIT:
            return self.codes
        blocks = self.codes.float() / self.levels * self.top
        return blocks.flatten()[: self.count].view(self.shape)


class SmallStateAdam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.995), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                s = self.state[p]
                if not s:
                    s.update(step=0, m=Stored(p, signed=True), v=Stored(p, signed=False))
                s["step"] += 1
                m = s["m"].read().mul(b1).add(p.grad, alpha=1 - b1)
                v = s["v"].read().mul(b2).addcmul(p.grad, p.grad, value=1 - b2)
                s["m"].write(m)
                s["v"].write(v)
                m = s["m"].read() / (1 - b1 ** s["step"])
                v = s["v"].read() / (1 - b2 ** s["step"])
                p.sub_(group["lr"] * m / (v.sqrt() + group["eps"]))  # @fault
        return loss


frequency = 1.0 / torch.arange(1, 201)
tone = torch.randn(200)
net = nn.Sequential(nn.EmbeddingBag(200, 16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = SmallStateAdam(net.parameters(), lr=2e-3)
for step in range(100):
    text = torch.multinomial(frequency, 64 * 12, replacement=True).view(64, 12)
    label = (tone[text].sum(dim=1) > 0).float()

    def closure(text=text, label=label):
        optimizer.zero_grad()
        logit = net(text).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(logit, label)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    if step % 10 == 0:
        print(f"step {step:3d} loss {loss.item():.4f}")
print(f"last loss {loss.item():.4f}")
