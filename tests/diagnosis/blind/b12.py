"""Fits the constants of a room's heat balance to measured temperatures by rolling it out."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(19)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16
ROOMS, MINUTES, STEPS = 32, 90, 80


class Room(nn.Module):
    def __init__(self, loss=0.1, power=2.0, sun=0.5):
        super().__init__()
        self.loss = nn.Parameter(torch.tensor(loss))
        self.power = nn.Parameter(torch.tensor(power))
        self.sun = nn.Parameter(torch.tensor(sun))

    def forward(self, inside, outside, heater, light):
        path = []
        for minute in range(MINUTES):
            heat = self.power * heater[:, minute] + self.sun * light
            change = (heat + self.loss * (outside - inside)) / 60
            inside = inside + change.to(inside.dtype)  # @fault
            path.append(inside)
        return torch.stack(path, 1)


def weather(generator):
    inside = 18 + 4 * torch.rand(ROOMS, generator=generator)
    outside = -5 + 20 * torch.rand(ROOMS, generator=generator)
    hours = torch.rand(ROOMS, MINUTES // 30, generator=generator) < 0.5
    heater = hours.float().repeat_interleave(30, 1)
    light = torch.rand(ROOMS, generator=generator)
    return inside, outside, heater, light


def main():
    true = Room(0.25, 5.0, 1.5)
    model = Room().to(DTYPE)
    masters = [p.detach().float().clone().requires_grad_() for p in model.parameters()]
    opt = torch.optim.Adam(masters, lr=0.1)
    generator = torch.Generator().manual_seed(3)
    for step in range(STEPS):
        data = weather(generator)
        with torch.no_grad():
            measured = true(*data) + 0.05 * torch.randn(ROOMS, MINUTES, generator=generator)
        path = model(*(d.to(DTYPE) for d in data))
        loss = (path.float() - measured).square().mean()
        model.zero_grad()
        loss.backward()
        for m, p in zip(masters, model.parameters(), strict=True):
            m.grad = p.grad.float()
        opt.step()
        with torch.no_grad():
            for m, p in zip(masters, model.parameters(), strict=True):
                p.copy_(m)
        if step % 10 == 0 or step == STEPS - 1:
            found = ", ".join(f"{m.item():.3f}" for m in masters)
            print(f"step {step} loss {loss.item():.4f} constants {found}")


main()
