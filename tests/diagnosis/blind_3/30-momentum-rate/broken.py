"""Deep linear-ish autoencoder for spectra, SGD with momentum."""
import torch
import torch.nn as nn

torch.manual_seed(25)
spectra = torch.randn(256, 5) @ torch.randn(5, 48)
model = nn.Sequential(nn.Linear(48, 24), nn.LeakyReLU(0.3), nn.Linear(24, 6), nn.LeakyReLU(0.3), nn.Linear(6, 24), nn.LeakyReLU(0.3), nn.Linear(24, 48))
optimizer = torch.optim.SGD(model.parameters(), lr=0.8, momentum=0.9)  # @fault

for step in range(120):
    x = spectra[torch.randint(0, 256, (64,))]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(x)
    loss = (y.float() - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 119:
        print(f"step {step} loss {loss.item():.4g}")
