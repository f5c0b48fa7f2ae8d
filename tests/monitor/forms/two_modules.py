"""An encoder and a decoder that no module holds together; one optimizer. Fault: in the decoder."""

import torch
from common import batch, say_loss, say_weights
from torch import nn


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(16, 16)
        self.leave = nn.Linear(16, 1)

    def forward(self, x, step):
        x = self.inner(x)
        if step >= 4:
            x = (x * 1e20) ** 2  # @fault
        return self.leave(x)


torch.manual_seed(0)
encoder, decoder = nn.Sequential(nn.Linear(8, 16), nn.Tanh()), Decoder()
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
for step in range(6):
    x, y = batch(step)
    loss = (decoder(encoder(x), step) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    say_loss(loss)
    optimizer.step()
say_weights([*encoder.parameters(), *decoder.parameters()])
