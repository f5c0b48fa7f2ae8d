"""Linear layers with eight-bit float activations and scales from a calibration."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(18)
REF = bool(os.environ.get("REF"))
FP8 = torch.float8_e4m3fn
FP8_MAX = torch.finfo(FP8).max
CALIBRATION = 5


class FP8Linear(nn.Linear):
    def __init__(self, n_in, n_out):
        super().__init__(n_in, n_out)
        self.register_buffer("amax", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        if self.calls < CALIBRATION:  # @fault
            self.amax.copy_(torch.maximum(self.amax, x.detach().abs().amax()))
        self.calls += 1
        if REF:
            return super().forward(x)
        scale = FP8_MAX / self.amax
        low = (x.detach() * scale).to(FP8).to(x.dtype) / scale  # @fault
        return F.linear(x + (low - x.detach()), self.weight, self.bias)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = FP8Linear(8, 64)
        self.second = FP8Linear(64, 64)
        self.head = FP8Linear(64, 1)

    def forward(self, x):
        x = F.relu(self.first(x))
        x = x + F.relu(self.second(x))
        return self.head(x)


def main():
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    coefficients = torch.randn(8)
    recent = []
    for step in range(140):
        x = torch.rand(64, 8) * 2 - 1
        y = 6 * (x @ coefficients)[:, None].square()
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recent = [*recent[-9:], loss.item()]
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final {sum(recent) / len(recent):.4f}")


if __name__ == "__main__":
    main()
