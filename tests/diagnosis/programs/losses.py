"""Loss functions and poolings that people write by hand."""

from __future__ import annotations

import torch
from planted import WITNESSED, Label, Watch, blobs, pick, planted
from torch import nn
from torch.nn import functional


def mlp(features: int, width: int, depth: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(features, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


class Probabilities(nn.Module):
    """A classifier that ends in a softmax, as in many tutorials."""

    def __init__(self, features: int, width: int, depth: int) -> None:
        super().__init__()
        self.body = mlp(features, width, depth, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.body(x), dim=-1)


@planted
def log_of_a_softmax(watch: Watch, v: int) -> Label:
    """-log(softmax(x)[y]) in FP16: the model grows sure, a wrong label has a probability near 0,
    and first the gradient of its log is Inf, then the loss.
    """
    torch.manual_seed(200 + v)
    model = Probabilities(10, pick(v, 32, 48, 24), pick(v, 1, 2, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=pick(v, 1e-2, 1e-2, 2e-2))
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    nanny = watch(model, optimizer, scaler=scaler, trace_interval=pick(v, 10, 10, 25))
    data = blobs(200 + v, 10, 6, noise=0.3)
    for step in range(150):
        x, y = next(data)
        if step > pick(v, 20, 33, 47) and step % 3 == 0:
            y[3] = (y[3] + 1) % 6  # as in any data labelled by people
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.float16):
                p = model(x * 4.0)
                loss = -torch.log(p.gather(1, y[:, None])).mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss)
    nanny.close()
    return Label(
        "log-of-softmax-underflows", WITNESSED, ("loss", "backward"), None, ("broken", "degraded")
    )


@planted
def log_error_of_a_negative_prediction(watch: Watch, v: int) -> Label:
    """Squared error of logarithms, of a linear output: of a negative one the log is NaN. FP32."""
    torch.manual_seed(210 + v)
    features = pick(v, 6, 9, 12)
    model = mlp(features, pick(v, 16, 32, 64), pick(v, 1, 2, 3), 1)
    with torch.no_grad():
        model[-1].bias.fill_(4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=pick(v, 0.02, 0.02, 0.02), momentum=0.9)
    nanny = watch(model, optimizer, trace_interval=10)
    weight = torch.randn(features)
    for step in range(100):
        x = torch.randn(32, features)
        price = (x @ weight).clamp(min=0)  # most are not sold
        with nanny.step(step) as record:
            predicted = model(x).squeeze(1)
            loss = (torch.log(predicted) - torch.log(price + 0.5)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return Label("log-or-division-of-invalid-input", WITNESSED, "loss", None, "broken", False)


class MeanPool(nn.Module):
    """The mean over the words that there are."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class Documents(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(80, width)
        self.encode = nn.Sequential(
            *[nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)]
        )
        self.pool = MeanPool()
        self.head = nn.Linear(width, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.pool(self.encode(self.embed(tokens)), (tokens > 0).float()))


@planted
def mean_over_no_words(watch: Watch, v: int) -> Label:
    """The mean of an empty text is 0 / 0, in BF16 as anywhere."""
    torch.manual_seed(220 + v)
    at = pick(v, 61, 22, 85)
    model = Documents(pick(v, 32, 24, 40), pick(v, 2, 1, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    nanny = watch(model, optimizer, trace_interval=pick(v, 50, 10, 100))
    for step in range(at + 12):
        tokens = torch.randint(1, 80, (16, 9))
        tokens[torch.arange(9) >= torch.randint(2, 10, (16, 1))] = 0
        y = tokens[:, 0] % 4
        if step == at:
            tokens[pick(v, 2, 15, 7)] = 0
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = functional.cross_entropy(model(tokens).float(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return Label("log-or-division-of-invalid-input", WITNESSED, "forward", "pool", "broken", False)


@planted
def sum_of_squares_of_a_larger_image(watch: Watch, v: int) -> Label:
    """A loss summed over pixels in FP16, and training that goes on to larger images at `at`."""
    torch.manual_seed(230 + v)
    at = pick(v, 40, 25, 64)
    channels = pick(v, 4, 6, 8)
    model = nn.Sequential(nn.Linear(3, channels), nn.Tanh())
    for _ in range(pick(v, 1, 2, 3)):
        model.append(nn.Sequential(nn.Linear(channels, channels), nn.Tanh()))
    model.append(nn.Linear(channels, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    nanny = watch(model, optimizer, scaler=scaler, trace_interval=10)
    for step in range(at + 25):
        side = 24 if step < at else 112
        image = torch.rand(4, side * side, 3) * 4 - 2
        target = image.flip(-1) + 0.1 * torch.randn_like(image)
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.float16):
                output = model(image)
                loss = ((output - target.to(output.dtype)) ** 2).sum()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss)
    nanny.close()
    return Label("half-sum-of-many-values-overflows", WITNESSED, "loss", None, "broken")


class Distance(nn.Module):
    """Euclidean distance, by hand."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a - b).square().sum(-1).sqrt()


class Siamese(nn.Module):
    def __init__(self, features: int, width: int, depth: int) -> None:
        super().__init__()
        self.tower = mlp(features, width, depth, 8)
        self.distance = Distance()

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.distance(self.tower(a), self.tower(b))


@planted
def distance_of_a_photo_to_itself(watch: Watch, v: int) -> Label:
    """A pair of the same photo: the distance is 0 its gradient 0 / 0, and the loss is fine."""
    torch.manual_seed(240 + v)
    at, depth = pick(v, 37, 71, 16), pick(v, 1, 2, 3)
    model = Siamese(12, pick(v, 24, 32, 48), depth)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    nanny = watch(model, optimizer, trace_interval=pick(v, 1, 50, 10))
    centres = torch.randn(20, 12)
    for step in range(at + 14):
        first = torch.randint(0, 20, (24,))
        second = torch.where(torch.rand(24) < 0.5, first, torch.randint(0, 20, (24,)))
        a = centres[first] + 0.2 * torch.randn(24, 12)
        b = centres[second] + 0.2 * torch.randn(24, 12)
        same = (first == second).float()
        if step == at:
            b[4], same[4] = a[4], 1.0
        with nanny.step(step) as record:
            far = model(a, b)
            loss = (same * far.square() + (1 - same) * (1.0 - far).clamp(min=0).square()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    producer = ("distance", f"tower.{2 * depth + 2}")
    return Label("norm-gradient-at-zero-vector", WITNESSED, "backward", producer, "broken", False)
