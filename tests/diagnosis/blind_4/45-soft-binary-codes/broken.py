"""Binary-code autoencoder; the sigmoid slope grows from 1 to 12 over the training, codes are hard at test time."""
import torch
import torch.nn as nn

torch.manual_seed(5)
STEPS = 400


class CodeAE(nn.Module):
    def __init__(self, dim=24, bits=16, hidden=64):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, bits))
        self.dec = nn.Sequential(nn.Linear(bits, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.register_buffer("ticks", torch.zeros(()))

    def slope(self):
        return 1.0 + 29.0 * (self.ticks.float() / STEPS) ** 4

    def forward(self, x):
        z = self.enc(x)
        if self.training:
            self.ticks += 1
            code = torch.tanh(self.slope() * z.float())
        else:
            code = torch.sign(z.float())
        return self.dec(code.to(z.dtype))


def sample(n):
    pick = (torch.rand(n, 10) < 0.5).float() * 2 - 1
    return pick @ BASIS + 0.05 * torch.randn(n, 24)


BASIS = torch.randn(10, 24) / 3
model = CodeAE().to(torch.bfloat16)  # @fault
master = [p.detach().float().clone().requires_grad_() for p in model.parameters()]
opt = torch.optim.Adam(master, lr=3e-3)
held = sample(1000)
for step in range(STEPS):
    x = sample(128)
    model.train()
    loss = (model(x.bfloat16()).float() - x).pow(2).mean()
    model.zero_grad()
    loss.backward()
    for w, p in zip(master, model.parameters()):
        w.grad = p.grad.float()
    opt.step()
    with torch.no_grad():
        for w, p in zip(master, model.parameters()):
            p.copy_(w)
    if step % 40 == 39:
        model.eval()
        with torch.no_grad():
            hard = (model(held.bfloat16()).float() - held).pow(2).mean()
        print(f"step {step + 1} loss {loss.item():.4f} hard-code error {hard:.4f}")
