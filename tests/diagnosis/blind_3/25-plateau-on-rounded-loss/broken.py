"""Density model for 160 features; the learning rate is halved when the loss stops falling."""
import math

import torch
import torch.nn as nn

torch.manual_seed(20)
DIM = 160
data = torch.randn(256, 8) @ torch.randn(8, DIM) * 0.25 + torch.randn(256, DIM)


class Density(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(DIM, 8), nn.Linear(8, DIM)

    def forward(self, x):
        return (0.5 * (x - self.decode(self.encode(x))).pow(2) + 0.5 * math.log(2 * math.pi)).sum(1).mean()


model = Density()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, threshold=1e-6)
for epoch in range(100):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(data)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step(loss.detach().to(torch.bfloat16))  # @fault
    if epoch % 10 == 0 or epoch == 99:
        print(f"epoch {epoch} loss {loss.item():.3f} lr {optimizer.param_groups[0]['lr']:.2e}")
