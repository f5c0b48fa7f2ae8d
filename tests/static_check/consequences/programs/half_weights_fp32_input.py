import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)).half().to("cuda")
    x = torch.randn(64, 16, device="cuda")
    with torch.no_grad():
        return model(x)  # <- error


if __name__ == "__main__":
    main()
