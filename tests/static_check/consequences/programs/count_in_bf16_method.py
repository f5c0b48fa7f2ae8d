import torch
from torch import nn

STEPS = 1000


class Meter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1, dtype=torch.bfloat16))

    def update(self):
        self.count += 1  # <- warning


def main():
    meter = Meter().to("cuda")
    for _ in range(STEPS):
        meter.update()
    return meter.count


if __name__ == "__main__":
    main()
