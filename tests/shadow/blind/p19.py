"""Diagonal state-space layer trained on a stream; the state is carried from chunk to chunk."""

import os

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(131)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16

STREAMS, CHANNELS, CHUNK = 16, 8, 24


class Plant:
    """The process that is to be learned: leaky integrators seen through a mixing matrix."""

    def __init__(self):
        self.keep = torch.exp(-torch.linspace(6e-4, 1.4e-3, CHANNELS))
        self.mix = torch.randn(CHANNELS, 2) / CHANNELS**0.5
        self.state = torch.zeros(STREAMS, CHANNELS)

    def run(self, inputs):
        seen = []
        for u in inputs:
            self.state = self.keep * self.state + 0.02 * u
            seen.append(self.state @ self.mix)
        return torch.stack(seen)


class DiagonalSSM(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_rate = nn.Parameter(torch.log(torch.linspace(5e-4, 1.5e-3, CHANNELS)))
        self.read = nn.Linear(CHANNELS, 2, bias=False)

    def forward(self, inputs, state):
        keep = torch.exp(-self.log_rate.exp().to(DTYPE))  # @fault
        seen = []
        for u in inputs:
            state = keep * state + 0.02 * u
            seen.append(state)
        return self.read(torch.stack(seen)), state.detach()


plant, layer = Plant(), DiagonalSSM()
slow, fast = [layer.log_rate], list(layer.read.parameters())
optimizer = torch.optim.Adam([{"params": slow, "lr": 1e-3}, {"params": fast}], lr=2e-2)
state = torch.zeros(STREAMS, CHANNELS)
errors = []
for step in range(140):
    inputs = torch.randn(CHUNK, STREAMS, CHANNELS)
    target = plant.run(inputs)
    output, state = layer(inputs, state)
    loss = F.mse_loss(output, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    errors.append((loss / target.var()).item())
    if step % 20 == 0:
        print(f"step {step:3d} mse {loss.item():.5f} relative {errors[-1]:.4f}")
print(f"relative error over the last 20 chunks {sum(errors[-20:]) / 20:.4f}")
