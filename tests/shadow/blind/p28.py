"""Discrete latent codes with relaxed categorical sampling, encoder and decoder in BF16."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(181)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16


class DiscreteCode(nn.Module):
    def __init__(self, inputs=16, groups=3, classes=6):
        super().__init__()
        self.groups, self.classes = groups, classes
        self.encoder = nn.Sequential(
            nn.Linear(inputs, 48), nn.ReLU(), nn.Linear(48, groups * classes)
        )
        self.decoder = nn.Sequential(
            nn.Linear(groups * classes, 48), nn.ReLU(), nn.Linear(48, inputs)
        )

    def noise(self, logits):
        u = torch.rand(logits.shape).to(logits.dtype)  # @fault
        return -torch.log(-torch.log(u))  # @fault

    def forward(self, x, temperature):
        logits = self.encoder(x).unflatten(1, (self.groups, self.classes))
        code = torch.softmax((logits + self.noise(logits)) / temperature, dim=-1)
        return self.decoder(code.flatten(1))


class Run:
    def __init__(self, steps):
        self.steps = steps
        self.model = DiscreteCode()
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=2e-3)
        self.prototypes = torch.randn(40, 16)

    def __iter__(self):
        for step in range(self.steps):
            yield step, self.prototypes[torch.randint(40, (8,))]

    def train(self):
        for step, x in self:
            temperature = max(0.5, 1.0 - step / self.steps)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=DTYPE is torch.bfloat16):
                rebuilt = self.model(x, temperature)
            loss = (rebuilt.float() - x).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if step % 10 == 0:
                print(f"step {step:3d} loss {loss.item():.4f}")


Run(steps=120).train()
