import torch
import torch.nn.functional as F
from torch import nn


def main():
    torch.manual_seed(0)
    denoiser = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    denoiser.to("cuda")
    nn.init.zeros_(denoiser[2].weight)
    nn.init.zeros_(denoiser[2].bias)
    optimizer = torch.optim.SGD(denoiser.parameters(), lr=0.1)
    for _ in range(3):
        clean = torch.rand(4, 3, 256, 256, device="cuda")
        noise = 0.01 * torch.randn_like(clean)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.mse_loss(denoiser(clean + noise), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
