# Decoder with rotary positions, trained on windows cut out of long documents.
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
VOCAB, WINDOW, MAX_POS, DIM, HEADS = 16, 32, 2048, 48, 3


def rotary_table(head_dim, max_pos, dtype, base=10000.0):
    inv = base ** (-torch.arange(0, head_dim, 2, dtype=dtype) / head_dim)
    pos = torch.arange(max_pos, dtype=dtype)
    ang = torch.outer(pos, inv)
    return ang.cos().float(), ang.sin().float()


def rotate(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.att = Attention()
        self.ff = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x, cos, sin):
        x = x + self.att(self.n1(x), cos, sin)
        return x + self.ff(self.n2(x))


class Decoder(nn.Module):
    def __init__(self, layers=1):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.head = nn.Linear(DIM, VOCAB)
        cos, sin = rotary_table(DIM // HEADS, MAX_POS, torch.bfloat16)  # @fault
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x, start):
        pos = start[:, None] + torch.arange(x.shape[1])
        cos, sin = self.cos[pos][:, None], self.sin[pos][:, None]
        h = self.emb(x)
        for blk in self.blocks:
            h = blk(h, cos, sin)
        return self.head(h)


def windows(n):
    """Next symbol is the one seen three places earlier (shifted by one), with some free symbols."""
    x = torch.randint(0, VOCAB, (n, WINDOW + 1))
    known = torch.rand(n, WINDOW + 1) < 0.8
    known[:, :3] = False
    for t in range(3, WINDOW + 1):
        x[:, t] = torch.where(known[:, t], (x[:, t - 3] + 1) % VOCAB, x[:, t])
    start = torch.randint(0, MAX_POS - WINDOW, (n,))
    return x, known, start


def loss_and_acc(model, x, known, start):
    logits = model(x[:, :-1], start)
    keep = known[:, 1:]
    loss = F.cross_entropy(logits[keep], x[:, 1:][keep])
    return loss, (logits[keep].argmax(-1) == x[:, 1:][keep]).float().mean()


model = Decoder()
opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=300)
val = windows(128)
for step in range(300):
    loss, acc = loss_and_acc(model, *windows(16))
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
    if (step + 1) % 60 == 0:
        with torch.no_grad():
            vl, va = loss_and_acc(model, *val)
        print(f"{step + 1}: train {loss.item():.4f} val {vl.item():.4f} val acc {va.item():.4f}")
