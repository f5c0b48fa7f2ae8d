import torch
import torch.nn as nn
import torch.nn.functional as F

# Sparse feature net: wide layer, negative biases and an L1 price on activity.
torch.manual_seed(9)
D, HID = 32, 1024
DICT = F.normalize(torch.randn(60, D), dim=1)
VALUE = torch.randn(60)


def draw(n):
    on = (torch.rand(n, 60) < 0.04).float() * (0.5 + torch.rand(n, 60))
    return on @ DICT, (on @ VALUE)[:, None]


class SparseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec, self.val = nn.Linear(D, HID), nn.Linear(HID, D), nn.Linear(HID, 1)
        nn.init.uniform_(self.enc.bias, -6.0, 0.0)
        self.register_buffer("fired", torch.zeros(HID))

    def forward(self, x):
        a = F.relu(self.enc(x))
        if self.training:
            self.fired += (a.detach() > 0).float().sum(0)
        return self.dec(a), self.val(a), a


def main():
    net = SparseNet()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    xv, yv = draw(800)
    for step in range(1, 401):
        x, y = draw(96)
        rec, val, a = net(x)
        loss = F.mse_loss(rec, x) * 10 + F.mse_loss(val, y) + 2e-4 * a.sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 80 == 0:
            net.eval()
            with torch.no_grad():
                rec, val, a = net(xv)
            net.train()
            r2 = 1 - (F.mse_loss(val, yv) / yv.var()).item()
            fvu = (F.mse_loss(rec, xv) / xv.var()).item()
            dead = (net.fired == 0).float().mean().item()
            net.fired.zero_()
            print(f"step {step} loss {loss.item():.4f} value R2 {r2:.4f} unexplained {fvu:.4f} dead units {dead:.3f}")


main()
