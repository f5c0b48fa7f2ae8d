import torch
import torch.nn.functional as F
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 1).to("cuda")
    x = torch.randn(8, 16, device="cuda")
    target = torch.ones(8, 1, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.binary_cross_entropy_with_logits(model(x), target)
    return loss


if __name__ == "__main__":
    main()
