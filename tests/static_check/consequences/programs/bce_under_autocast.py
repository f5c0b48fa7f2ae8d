import torch
import torch.nn.functional as F
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 1).to("cuda")
    x = torch.randn(8, 16, device="cuda")
    target = torch.ones(8, 1, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        probability = torch.sigmoid(model(x))
        loss = F.binary_cross_entropy(probability.float(), target)  # <- error
    return loss


if __name__ == "__main__":
    main()
