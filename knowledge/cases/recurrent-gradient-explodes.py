"""A plain RNN over 100 time steps: the gradient of its recurrent weight grows with the length of
the sequence, and one unclipped step ends the training. Clipped to norm 1 it goes on.
"""

import torch
from torch import nn

Numbers = dict[str, float | bool]


class Recurrent(nn.Module):
    """h <- relu(W h + U x), with a recurrent weight whose singular values are all 1.5."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(4, 32, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(32, 1)
        with torch.no_grad():
            nn.init.orthogonal_(self.rnn.weight_hh_l0, gain=1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, _ = self.rnn(x)
        return self.head(out[:, -1])


def recurrent_gradient(model: Recurrent, length: int) -> float:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(16, length, 4, generator=generator)
    model.zero_grad()
    model(x).square().mean().backward()
    assert model.rnn.weight_hh_l0.grad is not None
    return model.rnn.weight_hh_l0.grad.norm().item()


def run(clipped: bool) -> Numbers:
    torch.manual_seed(0)
    model = Recurrent()
    growth = {length: recurrent_gradient(model, length) for length in (10, 100, 200)}
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    broke_at = 0
    last = float("nan")
    for step in range(1, 61):
        x = torch.randn(16, 100, 4, generator=generator)
        y = x[:, -1].sum(-1, keepdim=True)
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        if not bool(torch.isfinite(loss)):
            broke_at = step
            break
        last = loss.item()
        loss.backward()
        if clipped:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return {
        "gradient_at_10": growth[10],
        "gradient_at_100": growth[100],
        "gradient_at_200": growth[200],
        "broke_at": broke_at,
        "last_loss": last,
        "failed": broke_at > 0,
    }


def broken() -> Numbers:
    return run(clipped=False)


def fixed() -> Numbers:
    return run(clipped=True)
