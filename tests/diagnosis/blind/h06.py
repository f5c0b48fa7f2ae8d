"""Gaussian process regression: the kernel's constants by L-BFGS on the marginal likelihood."""

import math
import os

import torch

torch.set_num_threads(1)
torch.manual_seed(15)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
POINTS, STEPS, JITTER = 60, 60, 1e-5


def measurements():
    x = torch.rand(POINTS, dtype=torch.float64).sort().values * 6
    y = torch.sin(2 * x) + 0.3 * torch.cos(5 * x)
    return x, y + 0.05 * torch.randn(POINTS, dtype=torch.float64)


class Process(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.log_length = torch.nn.Parameter(torch.tensor(1.0, dtype=dtype))
        self.log_size = torch.nn.Parameter(torch.tensor(0.0, dtype=dtype))
        self.log_noise = torch.nn.Parameter(torch.tensor(-1.0, dtype=dtype))

    def covariance(self, a, b):
        gap = (a.unsqueeze(1) - b.unsqueeze(0)) / self.log_length.exp()
        return self.log_size.mul(2).exp() * torch.exp(-0.5 * gap.square())

    def factor(self, x):
        noise = self.log_noise.mul(2).exp() + JITTER
        return torch.linalg.cholesky(self.covariance(x, x) + noise * torch.eye(len(x)).to(x))

    def forward(self, x, y):
        lower = self.factor(x)
        weights = torch.cholesky_solve(y.unsqueeze(1), lower).squeeze(1)
        fit = 0.5 * y.dot(weights)
        size = lower.diagonal().log().sum()
        return fit + size + 0.5 * len(x) * math.log(2 * math.pi)

    @torch.no_grad()
    def predict(self, x, y, at):
        weights = torch.cholesky_solve(y.unsqueeze(1), self.factor(x))
        return (self.covariance(at, x) @ weights).squeeze(1)


def main():
    x, y = (v.to(DTYPE) for v in measurements())
    process = Process(DTYPE)
    opt = torch.optim.LBFGS(
        process.parameters(), lr=0.1, max_iter=2, history_size=5, line_search_fn="strong_wolfe"
    )

    def closure():
        opt.zero_grad()
        loss = process(x, y)
        loss.backward()
        return loss

    for step in range(STEPS):
        loss = opt.step(closure)
        if step % 10 == 0 or step == STEPS - 1:
            found = [p.exp().item() for p in process.parameters()]
            print(f"step {step} loss {loss.item():.4f} length, size, noise {found}")
    at = torch.linspace(0.1, 5.9, 200, dtype=DTYPE)
    error = process.predict(x, y, at) - torch.sin(2 * at) - 0.3 * torch.cos(5 * at)
    print(f"rms error {error.square().mean().sqrt().item():.5f}")


main()
