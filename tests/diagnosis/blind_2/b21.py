"""A small neural force field for triatomic molecules, trained on energies and forces."""

import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(21)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


def make_molecules(n):
    generator = torch.Generator().manual_seed(8)
    bonds = 1.0 + 0.5 * torch.rand(n, 2, generator=generator, dtype=torch.float64)
    angle = 1.6 + 1.2 * torch.rand(n, generator=generator, dtype=torch.float64)
    positions = torch.zeros(n, 3, 3, dtype=torch.float64)
    positions[:, 1, 0] = bonds[:, 0]
    positions[:, 2, 0] = bonds[:, 1] * angle.cos()
    positions[:, 2, 1] = bonds[:, 1] * angle.sin()
    positions[::200] = torch.tensor([[0.0, 0, 0], [1.25, 0, 0], [-1.25, 0, 0]], dtype=torch.float64)
    return positions


def reference(positions):
    positions = positions.clone().requires_grad_()
    a, b = positions[:, 1] - positions[:, 0], positions[:, 2] - positions[:, 0]
    cosine = (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))
    energy = (a.norm(dim=1) - 1.2) ** 2 + (b.norm(dim=1) - 1.2) ** 2 + 0.5 * (cosine + 0.4) ** 2
    (grad,) = torch.autograd.grad(energy.sum(), positions)
    return energy.detach(), -grad


class ForceField(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def internal(self, positions):
        a = positions[:, 1] - positions[:, 0]
        b = positions[:, 2] - positions[:, 0]
        la, lb = a.norm(dim=1), b.norm(dim=1)
        cosine = (a * b).sum(1) / (la * lb)
        angle = torch.acos(cosine.clamp(-1.0, 1.0))  # @fault
        return torch.stack([la, lb, angle], dim=1)

    def forward(self, positions):
        positions = positions.clone().requires_grad_()
        energy = self.net(self.internal(positions)).squeeze(1)
        (grad,) = torch.autograd.grad(energy.sum(), positions, create_graph=True)
        return energy, -grad


def main():
    positions = make_molecules(480)
    energy, forces = reference(positions)
    data = TensorDataset(positions.to(DTYPE), energy.to(DTYPE), forces.to(DTYPE))
    loader = DataLoader(
        data, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(2)
    )
    model = ForceField().to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    step = 0
    for _ in range(2):
        for r, e, f in loader:
            e_hat, f_hat = model(r)
            loss = nn.functional.mse_loss(e_hat, e) + 0.1 * nn.functional.mse_loss(f_hat, f)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 10 == 0:
                print(f"step {step} loss {loss.item():.5f}")
            step += 1
    print(f"final {loss.item():.5f}")


if __name__ == "__main__":
    main()
