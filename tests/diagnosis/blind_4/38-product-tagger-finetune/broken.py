import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(38)
WORDS, TAGS = 80, 12


class Tagger(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.emb = nn.EmbeddingBag(WORDS, 64)
        self.hidden = nn.Linear(64, 96)
        self.head = nn.Linear(96, classes)

    def forward(self, x):
        return self.head(torch.tanh(2.0 * self.hidden(self.emb(x))))


word_tag = torch.randn(WORDS, TAGS)


def titles(n):
    x = torch.randint(0, WORDS, (n, 5))
    return x, word_tag[x].mean(1).argmax(1)


def build(lr):
    model = Tagger(classes=1000)
    opt = torch.optim.Adam(model.parameters(), lr=lr)  # @fault
    model.head = nn.Linear(96, TAGS)
    for p in list(model.emb.parameters()) + list(model.hidden.parameters()):
        p.requires_grad_(False)
    return model, opt


model, opt = build(lr=1e-2)
for step in range(250):
    x, y = titles(96)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    model.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    x, y = titles(2000)
    out = model(x)
print(f"test loss {F.cross_entropy(out, y).item():.4f} accuracy {(out.argmax(1) == y).float().mean().item():.4f}")
