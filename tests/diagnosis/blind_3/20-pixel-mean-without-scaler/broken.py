"""Decoding small images from a code; the loss is a mean over all pixels of the batch."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(15)
PIXELS = 15 * 16
basis = torch.randn(6, PIXELS) / 2.5

decoder = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, PIXELS))
optimizer = torch.optim.Adam(decoder.parameters(), lr=4e-3, eps=1e-12)
scaler = torch.amp.GradScaler("cpu", enabled=False)  # @fault

for step in range(60):
    code = torch.randn(128, 6)
    image = torch.tanh(2 * code) @ basis
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        out = decoder(code)
    loss = 2e-4 * F.mse_loss(out.float(), image)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 10 == 0 or step == 59:
        zero = (decoder[0].weight.grad == 0).float().mean().item()
        print(f"step {step} loss {loss.item():.3e} zero gradients in the first layer {zero:.2f}")
