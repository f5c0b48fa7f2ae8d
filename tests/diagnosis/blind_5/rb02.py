import math
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, DataLoader

torch.manual_seed(0)


class Shapes(Dataset):
    """20x20 pictures: disc, square, cross or ring, with noise."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(20.), torch.arange(20.), indexing="ij")
        self.x, self.y = [], []
        for _ in range(n):
            c = torch.randint(0, 4, (1,), generator=g).item()
            cx, cy = (torch.rand(2, generator=g) * 8 + 6).tolist()
            r = torch.rand(1, generator=g).item() * 2 + 3
            dx, dy = (xx - cx).abs(), (yy - cy).abs()
            d = (dx ** 2 + dy ** 2).sqrt()
            img = [d < r, (dx < r) & (dy < r), ((dx < 1.2) | (dy < 1.2)) & (d < r + 1), (d - r).abs() < 1][c].float()
            self.x.append(img[None] + 0.2 * torch.randn(1, 20, 20, generator=g))
            self.y.append(c)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 25, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        return self.fc(x.flatten(1))


class WeightAverage:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {k: v.detach().clone().to(torch.bfloat16) for k, v in model.named_parameters()}  # @fault

    @torch.no_grad()
    def update(self, model):
        for k, v in model.named_parameters():
            s = self.shadow[k]
            s.lerp_(v.to(s.dtype), 1 - self.decay)

    def write_to(self, model):
        for k, v in model.named_parameters():
            v.data.copy_(self.shadow[k])
        return model


@torch.no_grad()
def accuracy(net, ds):
    net.eval()
    x = torch.stack(ds.x)
    y = torch.tensor(ds.y)
    out = net(x)
    net.train()
    return (out.argmax(1) == y).float().mean().item(), F.cross_entropy(out, y).item()


def main():
    train, test = Shapes(1500, 1), Shapes(300, 2)
    net, avg_net = Net(), Net()
    ema = WeightAverage(net, 0.99)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    loader = DataLoader(train, batch_size=24, shuffle=True)
    total, step = 8 * len(loader), 0
    for epoch in range(8):
        for x, y in loader:
            for g in opt.param_groups:
                g["lr"] = 2e-3 * 0.5 * (1 + math.cos(math.pi * step / total))
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            ema.update(net)
            step += 1
        a, l = accuracy(net, test)
        ea, el = accuracy(ema.write_to(avg_net), test)
        print(f"epoch {epoch} train {loss.item():.4f} | test acc {a:.4f} nll {l:.4f} | averaged acc {ea:.4f} nll {el:.4f}")


main()
