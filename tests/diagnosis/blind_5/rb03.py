"""Fine-tune a small sentence encoder: pre-train on topic labels, then adapt to sentiment-like labels."""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)
V, L, TOPICS = 90, 12, 6
WORD_TOPIC = torch.randint(0, TOPICS, (V,))
WORD_TONE = torch.randn(V)


def sentences(n, gen):
    topic = torch.randint(0, TOPICS, (n,), generator=gen)
    x = torch.randint(0, V, (n, L), generator=gen)
    for i in range(n):
        own = (WORD_TOPIC == topic[i]).nonzero().flatten()
        keep = torch.rand(L, generator=gen) < 0.5
        x[i][keep] = own[torch.randint(0, len(own), (int(keep.sum()),), generator=gen)]
    tone = (WORD_TONE[x].sum(1) > 0).long()
    return x, topic, tone


class Encoder(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.tok = nn.Embedding(V, d)
        self.mix = nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d))
        self.norm = nn.LayerNorm(d)

    def forward(self, x):
        h = self.tok(x)
        return self.norm((h + self.mix(h)).mean(1))


class Classifier(nn.Module):
    def __init__(self, enc, n):
        super().__init__()
        self.enc, self.head = enc, nn.Linear(48, n)

    def forward(self, x):
        return self.head(self.enc(x))


@torch.no_grad()
def evaluate(model, x, y, dtype=torch.bfloat16):
    net = model.to(dtype)  # @fault
    net.eval()
    logits = torch.cat([net(c) for c in x.split(120)]).float()
    model.to(torch.float32)
    model.train()
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def fit(model, x, y, xv, yv, steps, lr, every, name):
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    best = 9e9
    for step in range(1, steps + 1):
        i = torch.randint(0, len(x), (32,))
        loss = F.cross_entropy(model(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % every == 0:
            nll, acc = evaluate(model, xv, yv)
            best = min(best, nll)
            if step % (steps // 6) < every:
                print(f"{name} {step:4d} train {loss.item():.4f} val {nll:.4f} acc {acc:.3f} best {best:.4f}")


def main():
    g = torch.Generator().manual_seed(11)
    x, topic, tone = sentences(2000, g)
    xv, topic_v, tone_v = sentences(120, g)
    model = Classifier(Encoder(), TOPICS)
    fit(model, x, topic, xv, topic_v, 120, 1e-3, 60, "topic")
    tuned = Classifier(copy.deepcopy(model.enc), 2)
    fit(tuned, x, tone, xv, tone_v, 400, 2.5e-4, 1, "tone")


if __name__ == "__main__":
    main()
