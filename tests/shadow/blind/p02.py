"""Small classifier trained under FP16 autocast with a gradient scaler."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(2)
REF = bool(os.environ.get("REF"))

centres = 2.0 * torch.randn(6, 20)


def batch(generator, size=96):
    label = torch.randint(6, (size,), generator=generator)
    return centres[label] + 1.5 * torch.randn(size, 20, generator=generator), label


net = nn.Sequential(
    nn.Linear(20, 48), nn.ReLU(), nn.LayerNorm(48), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 6)
)
optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**31, growth_interval=12, enabled=not REF)
stream = torch.Generator().manual_seed(3)
skipped = 0

for step in range(120):
    x, y = batch(stream)
    with torch.autocast("cpu", dtype=torch.float16, enabled=not REF):
        loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    before = scaler.get_scale()
    scaler.update()
    skipped += scaler.get_scale() < before
    if step % 20 == 0:
        print(f"step {step:3d} loss {loss.item():.4f} scale {scaler.get_scale():g}")

with torch.no_grad():
    x, y = batch(torch.Generator().manual_seed(77), 2000)
    logits = net(x)
    held_out = nn.functional.cross_entropy(logits, y)
    accuracy = (logits.argmax(1) == y).float().mean()
print(f"skipped {skipped}  held-out loss {held_out:.4f}  accuracy {accuracy:.4f}")
