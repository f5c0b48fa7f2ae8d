"""LoRA on a small attention model that is built on the meta device and filled from a checkpoint."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
D, H, T, V = 48, 4, 16, 32


class LoRA(nn.Module):
    def __init__(self, n_in, n_out, r=4):
        super().__init__()
        self.base = nn.Linear(n_in, n_out, bias=False)
        self.a, self.b = nn.Linear(n_in, r, bias=False), nn.Linear(r, n_out, bias=False)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (LoRA(D, D) for _ in range(4))
        self.register_buffer("cos", self.table()[0], persistent=False)
        self.register_buffer("sin", self.table()[1], persistent=False)

    @staticmethod
    def table(device=None):
        f = 1.0 / 100 ** (torch.arange(0, D // H, 2, device=device) / (D // H))
        angle = torch.outer(torch.arange(T, device=device).float(), f).repeat(1, 2)
        return angle.cos(), angle.sin()

    def rope(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat((-b, a), -1) * self.sin

    def forward(self, x):
        q, k, v = (
            m(x).view(len(x), T, H, D // H).transpose(1, 2) for m in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(self.rope(q), self.rope(k), v, is_causal=True)
        return x + self.o(y.transpose(1, 2).reshape(len(x), T, D))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.attn1, self.attn2, self.head = (
            nn.Embedding(V, D),
            Attention(),
            Attention(),
            nn.Linear(D, V),
        )

    def forward(self, ids):
        return self.head(self.attn2(self.attn1(self.emb(ids))))


saved = Net().state_dict()
with torch.device("meta"):
    net = Net()
net.to_empty(device="cpu")
net.load_state_dict(saved)
for name, p in net.named_parameters():
    p.requires_grad_(".a." in name or ".b." in name or name.startswith("head"))
for name, m in net.named_modules():
    if isinstance(m, LoRA):
        nn.init.zeros_(m.b.weight)
opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=3e-3)
start = net.attn1.q.a.weight.detach().clone(), net.attn1.v.a.weight.detach().clone()
for step in range(120):
    ids = torch.randint(0, V, (32, T))
    y = ids.roll(3, 1)
    loss = F.cross_entropy(net(ids)[:, 3:].reshape(-1, V), y[:, 3:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")
print(
    "moved q",
    (net.attn1.q.a.weight - start[0]).abs().max().item(),
    "v",
    (net.attn1.v.a.weight - start[1]).abs().max().item(),
)
