import torch
import torch.nn as nn

torch.manual_seed(25)
PIXELS, LATENT = 144, 6
basis = torch.randn(4, PIXELS)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(PIXELS, 48), nn.ReLU())
        self.mu, self.logvar = nn.Linear(48, LATENT), nn.Linear(48, LATENT)
        self.dec = nn.Sequential(nn.Linear(LATENT, 48), nn.ReLU(), nn.Linear(48, PIXELS))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


def elbo(x, out, mu, logvar):
    # reconstruction term with the best shared variance filled in
    sse = ((out - x.to(out.dtype)) ** 2).sum()  # @fault
    recon = 0.5 * PIXELS * torch.log(sse.float() / x.numel())
    kl = -0.5 * (1 + logvar.float() - mu.float() ** 2 - logvar.float().exp()).sum()
    return recon + kl / x.size(0)


def frames(n):
    return 2.0 * torch.randn(n, 4) @ basis + 0.2 * torch.randn(n, PIXELS)


model = VAE()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for step in range(250):
    x = frames(64)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        out, mu, logvar = model(x)
        loss = elbo(x, out, mu, logvar)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    if step % 25 == 0:
        print(f"step {step} elbo {loss.item():.3f} scale {scaler.get_scale():g}")
with torch.no_grad():
    x = frames(500)
    out = model(x)[0]
print(f"reconstruction mse {((out - x) ** 2).mean().item():.4f}")
