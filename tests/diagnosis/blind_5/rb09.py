import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(9)


def scenes(n, side=16):
    """Bright rectangles on a dark noisy ground and their masks."""
    img = torch.randn(n, 1, side, side) * 0.6
    mask = torch.zeros(n, 1, side, side)
    for i in range(n):
        t, l = torch.randint(0, side - 6, (2,)).tolist()
        h, w = torch.randint(3, 7, (2,)).tolist()
        mask[i, :, t:t + h, l:l + w] = 1
    gain = 1 + 5 * torch.rand(n, 1, 1, 1) ** 3
    return img + mask * gain, mask


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=0.6):
        super().__init__()
        self.gamma, self.alpha = gamma, alpha

    def forward(self, logits, target):
        p = torch.sigmoid(logits)  # @fault
        pos = -self.alpha * (1 - p) ** self.gamma * target * torch.log(p + 1e-8)
        neg = -(1 - self.alpha) * p ** self.gamma * (1 - target) * torch.log(1 - p + 1e-8)
        return (pos + neg).mean()


def make_net(c=12):
    return nn.Sequential(
        nn.Conv2d(1, c, 3, padding=1), nn.ReLU(),
        nn.Conv2d(c, c, 3, padding=1), nn.ReLU(),
        nn.Conv2d(c, 1, 1),
    )


@torch.no_grad()
def iou(net, x, m):
    hit = net(x) > 0
    inter = (hit & (m > 0)).sum().item()
    return inter / max(1, (hit | (m > 0)).sum().item())


def main():
    net, crit = make_net(), FocalLoss()
    opt = torch.optim.Adam(net.parameters(), lr=8e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)
    xv, mv = scenes(100)
    for step in range(1, 301):
        x, m = scenes(12)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = crit(net(x), m)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.5f} scale {scaler.get_scale():.3g} IoU {iou(net, xv, mv):.4f}")


main()
