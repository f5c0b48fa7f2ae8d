"""Categorical autoencoder with Gumbel-softmax codes."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(8)
CODES, WIDTH = 6, 16


def gumbel_softmax(logits, tau=1.0, eps=1e-10):
    logits = logits.float()
    u = torch.rand(logits.shape)
    noise = -torch.log(-torch.log(u + eps) + eps)
    return F.softmax((logits + noise) / tau, dim=-1)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, CODES * WIDTH))
        self.decoder = nn.Sequential(nn.Linear(CODES * WIDTH, 48), nn.ReLU(), nn.Linear(48, 20))

    def forward(self, x):
        code = gumbel_softmax(self.encoder(x).view(-1, CODES, WIDTH))
        return self.decoder(code.flatten(1))


model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
basis = torch.randn(4, 20)
for step in range(120):
    x = torch.randn(32, 4).sign() @ basis
    with torch.autocast("cpu", dtype=torch.float16):
        reconstruction = model(x)
    loss = F.mse_loss(reconstruction.float(), x)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 20 == 0 or step == 119 or not loss.isfinite():
        print(f"step {step} loss {loss.item():.4f} scale {scaler.get_scale():g}")
