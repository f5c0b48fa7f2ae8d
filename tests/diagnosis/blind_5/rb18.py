"""Fine-tuning of a text classifier's body with warm-up and inverse-root decay."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR

torch.manual_seed(13)
VOCAB, LEN, CLASSES = 200, 16, 8
KEY = torch.randint(0, CLASSES, (VOCAB,))


class Corpus:
    def __init__(self, n):
        self.y = torch.randint(0, CLASSES, (n,))
        self.x = torch.randint(0, VOCAB, (n, LEN))
        for i in range(n):
            pool = (KEY == self.y[i]).nonzero().flatten()
            where = torch.randperm(LEN)[:4]
            self.x[i, where] = pool[torch.randint(0, len(pool), (4,))]

    def epochs(self, bs):
        order = torch.randperm(len(self.y))
        for part in order.split(bs):
            yield self.x[part], self.y[part]


class TextNet(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.conv = nn.Conv1d(d, d, 3, padding=1)
        self.norm = nn.LayerNorm(d)
        self.fc = nn.Linear(d, CLASSES)

    def forward(self, x):
        e = self.emb(x)
        h = e + F.gelu(self.conv(e.transpose(1, 2))).transpose(1, 2)
        return self.fc(self.norm(h.mean(1)))


def warm_then_root(warm):
    def f(step):
        step = step + 1
        return step / warm if step < warm else (warm / step) ** 0.5
    return f


@torch.no_grad()
def evaluate(net, data):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(data.x).float()
    return F.cross_entropy(logits, data.y).item(), (logits.argmax(1) == data.y).float().mean().item()


def main():
    train, test = Corpus(2000), Corpus(400)
    net = TextNet()
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.01)
    sched = LambdaLR(opt, warm_then_root(100))
    steps = 0
    for epoch in range(6):
        total = 0.0
        for x, y in train.epochs(32):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = net(x)
            loss = F.cross_entropy(logits.float(), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            steps += 1
            total += loss.item() * len(y)
            if steps % 63 == 0:  # @fault
                sched.step()
        nll, acc = evaluate(net, test)
        print(f"epoch {epoch} loss {total / 2000:.4f} test nll {nll:.4f} acc {acc:.4f}")


if __name__ == "__main__":
    main()
