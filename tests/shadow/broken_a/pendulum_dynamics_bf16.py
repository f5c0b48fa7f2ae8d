"""Learns the dynamics of a pendulum with a BF16 network from pairs of successive states."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(4)

DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16


class Dynamics(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 96)
        self.middle = nn.Linear(96, 96)
        self.outer = nn.Linear(96, 2)

    def forward(self, state, torque):
        x = torch.cat([state, torque], dim=1)
        return state + self.outer(torch.relu(self.middle(torch.relu(self.inner(x)))))


def transitions(size=128):
    angle = 3.0 * (2 * torch.rand(size, 1) - 1)
    speed = 2.0 * (2 * torch.rand(size, 1) - 1)
    torque = torch.randn(size, 1)
    acceleration = -9.81 * torch.sin(angle) + torque - 0.1 * speed
    new_speed = speed + 0.05 * acceleration
    new_angle = angle + 0.05 * new_speed
    state, target = torch.cat([angle, speed], 1), torch.cat([new_angle, new_speed], 1)
    return state.to(DTYPE), torque.to(DTYPE), target.to(DTYPE)


def main():
    model = Dynamics().to(DTYPE)
    optimizer = torch.optim.SGD(model.parameters(), lr=3.0, momentum=0.9)  # @fault
    for step in range(40):
        state, torque, target = transitions()
        loss = (model(state, torque) - target).float().pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # @fault
        if step % 2 == 0:
            print(f"step {step:3d} loss {loss.item():.5g}")
    print(f"final loss {loss.item():.5g}")


if __name__ == "__main__":
    main()
