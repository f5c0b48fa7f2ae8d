"""Weights, gradients and optimizer states that are themselves FP16 or BF16."""

from __future__ import annotations

import torch
from planted import Label, Watch, blobs, pick, planted
from torch import nn
from torch.nn import functional


class Backbone(nn.Module):
    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block(x)
        return x.mean(1)


class HalfBody(nn.Module):
    """A body in FP16 and a head in FP32."""

    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.body = Backbone(vocabulary, width, depth).half()
        self.head = nn.Linear(width, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(tokens).float())


@planted
def adam_on_half_weights(watch: Watch, v: int) -> Label:
    """Adam on FP16 weights: its eps of 1e-8 is 0 there, and so is the square of a gradient below
    5e-3: 0 / 0. The body is frozen up to step `at`, as people fine-tune.
    """
    torch.manual_seed(500 + v)
    at = pick(v, 36, 20, 55)
    model = HalfBody(40, pick(v, 32, 24, 48), pick(v, 2, 1, 3))
    model.body.requires_grad_(False)
    optimizer = torch.optim.Adam(model.head.parameters(), lr=1e-3)
    nanny = watch(model, optimizer, trace_interval=pick(v, 10, 1, 10))
    for step in range(at + 20):
        if step == at:
            model.body.requires_grad_(True)
            optimizer.add_param_group({"params": list(model.body.parameters()), "lr": 1e-4})
        tokens = torch.randint(0, 40, (16, 8))
        with nanny.step(step) as record:
            loss = functional.cross_entropy(model(tokens), tokens[:, 0] % 4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return Label("adam-eps-underflow-fp16", at, "optimizer", None, "broken")


@planted
def fine_tuning_of_bf16_weights(watch: Watch, v: int) -> Label:
    """Weights in BF16 and a learning rate of 1e-4: nearly every update is under half an ulp."""
    torch.manual_seed(510 + v)
    width = pick(v, 32, 48, 64)
    model = nn.Sequential(nn.Linear(10, width), nn.ReLU())
    for _ in range(pick(v, 1, 2, 3)):
        model.extend([nn.Linear(width, width), nn.ReLU()])
    model.append(nn.Linear(width, 5))
    model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=pick(v, 1e-4, 8e-5, 1e-4))
    nanny = watch(model, optimizer, trace_interval=pick(v, 10, 25, 50))
    data = blobs(510 + v, 10, 5)
    for step in range(300):
        x, y = next(data)
        with nanny.step(step) as record:
            loss = functional.cross_entropy(model(x.bfloat16()).float(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return Label("bf16-weights-update-below-half-ulp", None, "optimizer", None, "degraded")


@planted
def half_model_and_a_small_loss(watch: Watch, v: int) -> Label:
    """model.half(), with Adam on FP32 copies of the weights as it should be, but no scale: what the
    loss sends back is below 6e-8 in most places, so 0 before it is copied.
    """
    torch.manual_seed(520 + v)
    width = pick(v, 32, 24, 48)
    model = nn.Sequential(nn.Linear(8, width), nn.Tanh())
    for _ in range(pick(v, 3, 4, 2)):
        model.extend([nn.Linear(width, width), nn.Tanh()])
    model.append(nn.Linear(width, 2))
    model.half()
    copies = [parameter.detach().float() for parameter in model.parameters()]
    optimizer = torch.optim.Adam(copies, lr=2e-3)
    nanny = watch(model, optimizer, trace_interval=10)
    weight = torch.randn(8, 2)
    for step in range(120):
        x = torch.randn(256, 8)
        with nanny.step(step) as record:
            strain = model(x.half()).float() * 1e-3
            loss = functional.mse_loss(strain, (x @ weight).tanh() * 5e-4)
            model.zero_grad()
            loss.backward()
            for copy, parameter in zip(copies, model.parameters(), strict=True):
                copy.grad = parameter.grad.float()
            optimizer.step()
            with torch.no_grad():
                for copy, parameter in zip(copies, model.parameters(), strict=True):
                    parameter.copy_(copy)
            record.log(loss=loss)
    nanny.close()
    return Label("pure-half-backward-underflow", None, "backward", None, "degraded")


@planted
def norm_of_half_gradients(watch: Watch, v: int) -> Label:
    """The norm for clipping is computed by hand in FP16: its squares are Inf, the factor is 0, and
    the model does not learn any more. No gradient is Inf itself.
    """
    torch.manual_seed(530 + v)
    at = pick(v, 28, 49, 17)
    model = nn.Sequential(nn.Linear(10, pick(v, 32, 24, 48)), nn.ReLU())
    for _ in range(pick(v, 1, 2, 3)):
        model.extend([nn.Linear(model[0].out_features, model[0].out_features), nn.ReLU()])
    model.append(nn.Linear(model[0].out_features, 4))
    model.half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    nanny = watch(model, optimizer, trace_interval=pick(v, 10, 10, 50))
    data = blobs(530 + v, 10, 4)
    first = -1
    for step in range(at + 50):
        x, y = next(data)
        weight = 1.0 if step < at else 5000.0  # the second task's loss counts for more
        with nanny.step(step) as record:
            loss = functional.cross_entropy(model(x.half()), y) * weight
            optimizer.zero_grad()
            loss.backward()
            norm = sum((p.grad * p.grad).sum() for p in model.parameters()).sqrt()
            if first < 0 and not torch.isfinite(norm):
                first = step
            for parameter in model.parameters():
                parameter.grad.mul_((1.0 / (norm + 1e-6)).clamp(max=1.0))
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return Label(
        "grad-norm-computed-in-fp16-overflows", first, "optimizer", None, ("broken", "degraded")
    )
