import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 1).to("cuda")
    with torch.autocast(dtype=torch.float16):  # <- error
        return model(torch.randn(64, 16, device="cuda"))


if __name__ == "__main__":
    main()
