"""Street-level temperature from GPS position; points lie within some kilometres of one city."""
import torch
import torch.nn as nn

torch.manual_seed(6)
CENTRE = torch.tensor([37.7749, -122.4194])
SPREAD = 0.05


class Field(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.register_buffer("freq", torch.randn(2, 24) * 1.2)
        self.net = nn.Sequential(nn.Linear(48, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 1))

    def forward(self, pos):
        ang = pos @ self.freq
        return self.net(torch.cat([ang.sin(), ang.cos()], -1)).squeeze(-1)


def heat(u):
    return torch.sin(2.0 * u[:, 0]) * torch.cos(1.5 * u[:, 1]) + 0.5 * torch.exp(-u.pow(2).sum(-1))


def survey(n):
    u = torch.randn(n, 2)
    return CENTRE + SPREAD * u, heat(u)


def prepare(latlon, dtype):
    latlon = latlon.to(dtype)  # @fault
    centre = CENTRE.to(latlon.dtype)
    return ((latlon - centre) / SPREAD).to(dtype)


train_x, train_y = survey(4096)
test_x, test_y = survey(1024)
model = Field()
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
train_in, test_in = prepare(train_x, torch.float16), prepare(test_x, torch.float16)
for step in range(300):
    idx = torch.randint(0, 4096, (256,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pred = model(train_in[idx].float())
    loss = (pred.float() - train_y[idx]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 29:
        with torch.no_grad():
            test = (model(test_in.float()) - test_y).pow(2).mean()
        print(f"step {step + 1} loss {loss.item():.4f} test {test:.4f}")
