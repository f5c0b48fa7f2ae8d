import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
TEXT = ("the quick brown fox jumps over the lazy dog while seven wizards quietly "
        "pack my box with five dozen liquor jugs and then sphinx of black quartz judge my vow ") * 6
chars = sorted(set(TEXT))
ids = torch.tensor([chars.index(c) for c in TEXT])
CONTEXT = 6
WEIGHT_DTYPE = torch.float16  # @fault


class CharMLP(nn.Module):
    def __init__(self, vocab, emb=12, hidden=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.l1 = nn.Linear(emb * CONTEXT, hidden)
        self.l2 = nn.Linear(hidden, vocab)

    def forward(self, x):
        h = torch.tanh(self.l1(self.emb(x).flatten(1)))
        return self.l2(h)


windows = ids.unfold(0, CONTEXT + 1, 1)
model = CharMLP(len(chars)).to(WEIGHT_DTYPE)
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(300):
    rows = windows[torch.randint(0, windows.size(0), (64,))]
    logits = model(rows[:, :-1])
    loss = F.cross_entropy(logits.float(), rows[:, -1])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    full = F.cross_entropy(model(windows[:, :-1]).float(), windows[:, -1])
print(f"full corpus loss {full.item():.4f}")
