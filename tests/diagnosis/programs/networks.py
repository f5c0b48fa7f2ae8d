"""Networks that fail by what they are: recurrent, saturated, dead, adversarial, unbounded."""

from __future__ import annotations

import torch
from planted import WITNESSED, Label, Watch, blobs, pick, planted
from torch import nn
from torch.nn import functional


class Recurrent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.rnn = nn.RNN(2, width, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(x)[0][:, -1])


@planted
def recurrent_network_without_clipping(watch: Watch, v: int) -> Label:
    """A ReLU RNN with an identity for its recurrent weights, without clipping: from step `at` on
    the sequences are four times as long, and the gradient grows with the length's power.
    """
    torch.manual_seed(700 + v)
    at, width, long = pick(v, 50, 35, 60), pick(v, 32, 32, 64), pick(v, 120, 100, 90)
    model = Recurrent(width)
    nn.init.eye_(model.rnn.weight_hh_l0)
    with torch.no_grad():
        model.rnn.weight_ih_l0.mul_(0.1)
        model.rnn.bias_hh_l0.zero_()
        model.rnn.bias_ih_l0.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-3)
    nanny = watch(model, optimizer, trace_interval=10)
    norms: list[float] = []
    exploded = -1
    for step in range(at + 40):
        length = 20 if step < at else long
        x = torch.rand(16, length, 2)
        x[:, :, 1] = 0
        x[torch.arange(16), torch.randint(0, length // 2, (16,)), 1] = 1
        x[torch.arange(16), torch.randint(length // 2, length, (16,)), 1] = 1
        with nanny.step(step) as record:
            loss = functional.mse_loss(model(x).squeeze(1), (x[:, :, 0] * x[:, :, 1]).sum(1))
            optimizer.zero_grad()
            loss.backward()
            norm = sum(p.grad.square().sum() for p in model.parameters()).sqrt().item()
            optimizer.step()
            record.log(loss=loss)
        if exploded < 0 and step and not norm <= 100 * sorted(norms)[len(norms) // 2]:
            exploded = step
        norms.append(norm)
    nanny.close()
    return Label(
        "recurrent-gradient-explodes",
        (exploded, WITNESSED),
        ("backward", "forward"),
        "rnn",
        "broken",
        False,
    )


@planted
def relu_at_the_output(watch: Watch, v: int) -> Label:
    """A quantity that is never negative, so a ReLU at the output, and a rate that is too high: one
    overshoot, and the output is 0 for every input, without a gradient.
    """
    torch.manual_seed(710 + v)
    depth, width = pick(v, 2, 1, 3), pick(v, 24, 32, 48)
    layers: list[nn.Module] = []
    for index in range(depth):
        layers += [nn.Linear(8 if index == 0 else width, width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(width, 1), nn.ReLU())
    last = 2 * depth + 1
    with torch.no_grad():
        model[last - 1].bias.fill_(9.0)  # the mean of last year
    optimizer = torch.optim.Adam(model.parameters(), lr=pick(v, 0.05, 0.06, 0.01))
    nanny = watch(model, optimizer, trace_interval=pick(v, 1, 10, 10))
    weight = torch.randn(8) * 0.3
    dead: list[int] = []

    def look(_module: nn.Module, _args: object, output: torch.Tensor) -> None:
        dead.append(0) if bool((output > 0).any()) else dead.append(1)

    model[last].register_forward_hook(look)
    for step in range(120):
        x = torch.rand(32, 8) * 4.0 + 2.0  # not centred
        y = 3.0 + (x - 4.0) @ weight.abs()
        with nanny.step(step) as record:
            loss = functional.mse_loss(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    assert dead[-1], "the output is alive"
    first = max(step for step, now in enumerate([0, *dead]) if not now)  # none lives from here on
    return Label(
        "dying-relu-network", first, "forward", (str(last), str(last - 1)), "degraded", False
    )


@planted
def twelve_sigmoids(watch: Watch, v: int) -> Label:
    """A deep network of sigmoids: each takes three quarters of the gradient, at least."""
    torch.manual_seed(720 + v)
    width, depth = pick(v, 24, 32, 16), pick(v, 12, 10, 14)
    layers: list[nn.Module] = []
    for index in range(depth):
        layers += [nn.Linear(10 if index == 0 else width, width), nn.Sigmoid()]
    model = nn.Sequential(*layers, nn.Linear(width, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    nanny = watch(model, optimizer, trace_interval=pick(v, 10, 50, 10))
    data = blobs(720 + v, 10, 4)
    for step in range(150):
        x, y = next(data)
        with nanny.step(step) as record:
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return Label("vanishing-gradient-deep-sigmoid", None, "backward", None, "degraded", False)


class Gan(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        body: list[nn.Module] = []
        for _ in range(depth):
            body += [nn.Linear(width, width), nn.ReLU()]
        self.generator = nn.Sequential(nn.Linear(4, width), nn.ReLU(), *body, nn.Linear(width, 2))
        self.discriminator = nn.Sequential(
            nn.Linear(2, 2 * width), nn.ReLU(), nn.Linear(2 * width, 1), nn.Sigmoid()
        )


@planted
def generator_that_gets_no_gradient(watch: Watch, v: int) -> Label:
    """log(1 - D(G(z))) as in the first paper, and a discriminator that learns ten times as fast: it
    is soon right about everything, and the generator's gradient is 0.
    """
    torch.manual_seed(730 + v)
    model = Gan(pick(v, 24, 32, 48), pick(v, 1, 2, 1))
    for_d = torch.optim.Adam(model.discriminator.parameters(), lr=2e-2)
    for_g = torch.optim.Adam(model.generator.parameters(), lr=1e-4)
    nanny = watch(model, trace_interval=10)
    bce = functional.binary_cross_entropy
    for step in range(150):
        angle = torch.rand(64) * 6.2832
        real = torch.stack([angle.cos(), angle.sin()], 1) * 4.0
        with nanny.step(step) as record:
            fake = model.generator(torch.randn(64, 4))
            p_real, p_fake = model.discriminator(real), model.discriminator(fake.detach())
            d_loss = bce(p_real, torch.ones_like(p_real)) + bce(p_fake, torch.zeros_like(p_fake))
            for_d.zero_grad()
            d_loss.backward()
            for_d.step()
            g_loss = torch.log(1.0 - model.discriminator(fake) + 1e-12).mean()
            for_g.zero_grad()
            g_loss.backward()
            for_g.step()
            record.log(loss=g_loss)
    nanny.close()
    return Label("gan-discriminator-overpowers", None, "backward", None, "degraded", False)


class Field(nn.Module):
    """A radiance field of one dimension."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        body: list[nn.Module] = [nn.Linear(12, width), nn.ReLU()]
        for _ in range(depth):
            body += [nn.Linear(width, width), nn.ReLU()]
        self.body = nn.Sequential(*body)
        self.density = Density(width)
        self.colour = nn.Linear(width, 3)

    def forward(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        octaves = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
        angles = points[..., None] * octaves
        hidden = self.body(torch.cat([angles.sin(), angles.cos()], -1))
        sigma, colour = self.density(hidden), torch.sigmoid(self.colour(hidden))
        return sigma, colour


class Density(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.raw = nn.Linear(width, 1)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.exp(self.raw(hidden)).squeeze(-1)


@planted
def density_as_an_exponential(watch: Watch, v: int) -> Label:
    """The density of a radiance field is exp() of a linear layer, in FP16: a solid wall drives it
    up until it passes 65504, at 11.09 before the exponential.
    """
    torch.manual_seed(740 + v)
    model = Field(pick(v, 32, 48, 24), pick(v, 1, 2, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=pick(v, 3e-3, 2e-3, 4e-3))
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    nanny = watch(model, optimizer, scaler=scaler, trace_interval=10)
    for step in range(150):
        points = torch.rand(32, 1) * 0.5 + torch.linspace(0, 2, 24)
        solid = (points > pick(v, 1.2, 0.9, 1.0)).float()
        wanted = solid * pick(v, 2e5, 1e5, 3e5)  # per metre
        red = torch.tensor([0.9, 0.2, 0.1])
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.float16):
                sigma, colour = model(points)
            density = functional.l1_loss(torch.log1p(sigma.float()), torch.log1p(wanted))
            loss = density + (solid[..., None] * (colour.float() - red)).square().mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss)
    nanny.close()
    return Label("nerf-density-exp-overflow", WITNESSED, "forward", "density", "broken")
