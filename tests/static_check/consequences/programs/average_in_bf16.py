import copy

import torch
from torch import nn

DECAY = 0.9999


@torch.no_grad()
def update_average(average, model):
    for a, p in zip(average.parameters(), model.parameters(), strict=True):
        a.mul_(DECAY).add_(p, alpha=1 - DECAY)  # <- warning


def main():
    torch.manual_seed(0)
    model = nn.Linear(16, 16).to("cuda")
    average = copy.deepcopy(model).to(torch.bfloat16)
    start = average.weight.clone()
    for _ in range(50):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.01)
        update_average(average, model)
    return average.weight - start


if __name__ == "__main__":
    main()
