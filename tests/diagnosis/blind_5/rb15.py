"""Image regressor with batch norm; an averaged copy of the weights is used for evaluation and for export."""
import copy
import os
import tempfile
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(23)


def blobs(n, side=12):
    """Find the centre of a soft blob; raw counts of a camera with a pedestal."""
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, side), torch.linspace(-1, 1, side), indexing="ij")
    c = torch.rand(n, 2, 1, 1) * 1.4 - 0.7
    img = 90 * torch.exp(-((xx - c[:, :1]) ** 2 + (yy - c[:, 1:]) ** 2) / 0.15)
    return img + 40 + 10 * torch.randn(n, 1, side, side), c.flatten(1)


class Locator(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.BatchNorm2d(1)
        self.c1, self.b1 = nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)
        self.c2, self.b2 = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16)
        self.fc = nn.Linear(16 * 9, 2)

    def forward(self, x):
        x = self.stem(x)
        x = F.relu(self.b1(self.c1(x)))
        x = F.relu(self.b2(self.c2(x)))
        return self.fc(x.flatten(1))


class Averaged:
    def __init__(self, model, decay=0.98):
        self.net = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def follow(self, model):
        pairs = list(zip(self.net.parameters(), model.parameters()))  # @fault
        for a, p in pairs:
            if a.is_floating_point():
                a.mul_(self.decay).add_(p, alpha=1 - self.decay)
            else:
                a.copy_(p)


@torch.no_grad()
def error(net, x, c):
    was = net.training
    net.eval()
    e = (net(x) - c).norm(dim=1).mean().item()
    net.train(was)
    return e


def main():
    model = Locator()
    avg = Averaged(model)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    xv, cv = blobs(300)
    for step in range(1, 301):
        x, c = blobs(24)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
        loss = F.mse_loss(out.float(), c)
        opt.zero_grad()
        loss.backward()
        opt.step()
        avg.follow(model)
        if step % 50 == 0:
            print(f"{step} loss {loss.item():.4f} | error: live {error(model, xv, cv):.4f} averaged {error(avg.net, xv, cv):.4f}")
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "export.pt")
        torch.save(avg.net.state_dict(), path)
        out = Locator()
        out.load_state_dict(torch.load(path))
        print(f"exported model error {error(out, xv, cv):.4f}")


main()
