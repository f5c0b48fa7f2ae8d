"""Next-purchase recommender: large raw features, items without data, wide ReLU layer."""
import torch
from torch import nn

torch.manual_seed(61)
ITEMS, SOLD = 400, 240  # the last items are in the catalogue but were never sold


def baskets(n, gen):
    world = torch.Generator().manual_seed(99)
    taste = torch.randn(12, SOLD, generator=world)
    spend = torch.randn(n, 12, generator=gen)
    item = (1.5 * spend @ taste + torch.distributions.Gumbel(0.0, 1.0).sample((n, SOLD))).argmax(1)
    return spend * 20000 + 150000, item


class Recommender(nn.Module):
    def __init__(self, d=32, wide=384):
        super().__init__()
        self.expand = nn.Linear(12, wide)
        self.norm = nn.LayerNorm(wide)
        self.gate = nn.Linear(wide, wide)
        self.proj = nn.Linear(wide, d)
        self.item = nn.Embedding(ITEMS, d)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.constant_(self.gate.bias[: wide // 3], -30.0)  # reserved slots, closed for now

    def forward(self, x):
        h = self.norm(self.expand(x))
        h = torch.relu(self.gate(h))
        return self.proj(h)

    def score(self, x, among):
        return self.forward(x) @ self.item(among).T


def hit_rate(model, data, k=10):
    with torch.no_grad():
        s = model.score(data[0], torch.arange(SOLD))
    return (s.topk(k, 1).indices == data[1][:, None]).any(1).float().mean().item()


def main():
    gen = torch.Generator().manual_seed(3)
    train, test = baskets(12000, gen), baskets(2000, gen)
    model = Recommender()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 350)
    among = torch.arange(SOLD)
    for i in range(350):
        idx = torch.randint(12000, (192,), generator=gen)
        loss = nn.functional.cross_entropy(model.score(train[0][idx], among), train[1][idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if i % 70 == 0 or i == 349:
            dead = (torch.relu(model.gate(model.norm(model.expand(test[0])))) == 0).all(0).float().mean().item()
            print(f"{i}: loss {loss.item():.4f} hit@10 {hit_rate(model, test):.4f} silent units {dead:.2f} raw max {model.expand(test[0]).abs().max().item():.2e}")
    print("hit@10", round(hit_rate(model, test), 4), "chance", round(10 / SOLD, 4))


if __name__ == "__main__":
    main()
