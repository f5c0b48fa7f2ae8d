import copy
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(9)
CLIENTS, ROUNDS, LOCAL_STEPS = 5, 40, 3
w_true = torch.randn(16, 4)


class TriageNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))

    def forward(self, x):
        return self.net(x)


def make_client(seed):
    g = torch.Generator().manual_seed(seed)
    shift = torch.randn(16, generator=g) * 0.3
    x = torch.randn(400, 16, generator=g) + shift
    return x, (x @ w_true).argmax(1)


def pack(delta):
    """Compress one tensor to a byte per value for the upload."""
    scale = 240.0 / delta.abs().max().clamp_min(1e-12)
    return (delta * scale).to(torch.float8_e4m3fn), scale


def unpack(blob, scale):
    return blob.float() / scale


def local_train(server, data):
    net = copy.deepcopy(server)
    opt = torch.optim.Adam(net.parameters(), lr=3e-4)
    x, y = data
    for _ in range(LOCAL_STEPS):
        pick = torch.randint(0, x.size(0), (64,))
        loss = F.cross_entropy(net(x[pick]), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()
    deltas = [q.detach() - p.detach() for p, q in zip(server.parameters(), net.parameters())]
    return [pack(d) for d in deltas], loss.item()


server = TriageNet()
clients = [make_client(100 + i) for i in range(CLIENTS)]
for rnd in range(ROUNDS):
    uploads, losses = zip(*[local_train(server, c) for c in clients])
    with torch.no_grad():
        for i, p in enumerate(server.parameters()):
            mean_delta = torch.stack([unpack(*u[i]) for u in uploads]).mean(0)
            p.add_(mean_delta, alpha=4.0)
    if rnd % 4 == 0:
        print(f"round {rnd} mean local loss {sum(losses) / CLIENTS:.4f}")

with torch.no_grad():
    x = torch.cat([c[0] for c in clients])
    y = torch.cat([c[1] for c in clients])
    out = server(x)
print(f"global loss {F.cross_entropy(out, y).item():.4f} accuracy {(out.argmax(1) == y).float().mean().item():.4f}")
