import io
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(19)
COLS, REGIONS = 20, 600
w1, w2 = torch.randn(COLS, 8), torch.randn(8)
region_effect = torch.randn(REGIONS)


class ChurnNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.region = nn.Embedding(REGIONS, 8)
        self.net = nn.Sequential(nn.Linear(COLS + 8, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, x, region):
        return self.net(torch.cat([x, self.region(region)], dim=1)).squeeze(-1)


def customers(n):
    x = torch.randn(n, COLS)
    region = torch.randint(0, REGIONS, (n,))
    return x, region, (torch.tanh(x @ w1) @ w2 + region_effect[region] > 0).float()


def shrink(obj):
    """Store tensors compactly."""
    if torch.is_tensor(obj) and obj.is_floating_point() and obj.dim() > 0:
        return obj.to(torch.float32)
    if isinstance(obj, dict):
        return {k: shrink(v) for k, v in obj.items()}
    if isinstance(obj, list):
        return [shrink(v) for v in obj]
    return obj


def build():
    net = ChurnNet()
    return net, torch.optim.Adam(net.parameters(), lr=2e-3)


def run(net, opt, steps, tag):
    for step in range(steps):
        x, region, y = customers(128)
        loss = F.binary_cross_entropy_with_logits(net(x, region), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 30 == 0 or step < 3:
            print(f"{tag} step {step} loss {loss.item():.4f}")
    return loss.item()


net, opt = build()
run(net, opt, 300, "first")
disk = io.BytesIO()
torch.save({"opt": shrink(opt.state_dict()), "net": net.state_dict()}, disk)
disk.seek(0)

net, opt = build()
state = torch.load(disk)
net.load_state_dict(state["net"])
opt.load_state_dict(state["opt"])
run(net, opt, 40, "resumed")
with torch.no_grad():
    x, region, y = customers(4000)
    print(f"loss after resume {F.binary_cross_entropy_with_logits(net(x, region), y).item():.4f}")
