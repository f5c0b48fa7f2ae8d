"""What trainings do with tensors that a shadow step sees, beside tests/monitor's features: each a
short training that must be the same under it.

A feature is a function of `watch(model)` that answers the losses and the model, as in
tests/monitor/compatibility_features.py.
"""

from __future__ import annotations

import contextlib
import copy
import io
import random
from collections.abc import Callable
from typing import Any

import torch
from compatibility_features import STEPS, Losses, Watch, fit, of
from conftest import Mlp, batch, cross_entropy
from torch import nn
from torch.nn import functional
from whole_numbers import whole_numbers_of_floats


def closures(watch: Watch) -> Losses:
    """LBFGS evaluates the model many times in a step."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    nanny = watch(model)
    descent = torch.optim.LBFGS(
        model.parameters(), lr=0.1, max_iter=4, line_search_fn="strong_wolfe"
    )
    losses = []
    for _ in range(STEPS):
        x, y = batch()

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            descent.zero_grad()
            loss = cross_entropy(model(x), y)
            loss.backward()
            return loss

        losses.append(descent.step(closure).item())
    nanny.close()
    return losses, model


def accumulated_gradients(watch: Watch) -> Losses:
    model = Mlp()
    nanny = watch(model)
    descent = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(STEPS):
        for _ in range(3):
            x, y = batch()
            with torch.autocast("cpu", torch.bfloat16):
                loss = cross_entropy(model(x), y) / 3
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        nn.utils.clip_grad_value_(model.parameters(), 0.01)
        descent.step()
        descent.zero_grad(set_to_none=False)
        losses.append(loss.item())
    nanny.close()
    return losses, model


def optimizer(kind: Callable[..., torch.optim.Optimizer], **options: Any) -> Callable[..., Losses]:
    return lambda watch: fit(watch, Mlp().bfloat16(), _half_loss, kind, **options)


def _half_loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return cross_entropy(model(x.bfloat16()), y)


class _Square(torch.autograd.Function):
    """Writes its input's memory, and computes its derivative in another type."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(x.clone())
        context.mark_dirty(x)
        return x.mul_(x)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = context.saved_tensors
        return (gradient.half() * 2 * x.half()).to(x.dtype)


def custom_derivatives(watch: Watch) -> Losses:
    return fit(
        watch,
        of(
            lambda m, x: m.out(_Square.apply(m.a(x) * 0.5).sigmoid()),
            a=nn.Linear(8, 8),
            out=nn.Linear(8, 3),
        ),
    )


def results_in_memory_of_mine(watch: Watch) -> Losses:
    """out=, resize_, storages that are emptied and filled again."""
    buffer, whole = torch.empty(0), torch.empty(16, 8)

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.mul(x, 2, out=buffer.resize_(x.shape))
        torch.add(x, buffer, alpha=0.5, out=whole)
        storage = whole.untyped_storage()
        kept = whole.clone()
        size = storage.nbytes()
        storage.resize_(0)
        storage.resize_(size)
        whole.copy_(kept)
        mean, deviation = torch.empty(16), torch.empty(0)
        torch.var_mean(whole, dim=1)
        torch.mean(whole, dim=1, out=mean)
        torch.std(whole, dim=1, out=deviation)
        return cross_entropy(model((whole - mean[:, None]) / deviation[:, None]), y)

    return fit(watch, Mlp(), loss_of)


def empty_tensors(watch: Watch) -> Losses:
    def forward(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        nothing = model.a(x[:0])
        x = torch.cat([model.a(x), nothing, nothing.mean(0, keepdim=True)[:0]])
        nothing.add_(1).sum()
        torch.zeros(0, 8).addmm_(nothing, model.a.weight)
        return model.out(x[:, :0].sum(1, keepdim=True) + x)

    return fit(watch, of(forward, a=nn.Linear(8, 8), out=nn.Linear(8, 3)))


def draws_of_all_kinds(watch: Watch) -> Losses:
    mine = torch.Generator().manual_seed(5)

    def forward(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = model.a(functional.dropout2d(x[:, :, None, None], 0.2).flatten(1))
        x = functional.rrelu(x, training=True) + torch.randn(x.shape, generator=mine)
        x = x * torch.empty_like(x).bernoulli_(0.9, generator=mine)
        x = x + functional.gumbel_softmax(x.bfloat16(), tau=0.7).float()
        x = x + torch.normal(x.detach(), 0.1) + torch.empty_like(x).exponential_().detach()
        functional.alpha_dropout(x, 0.1)
        torch.multinomial(x.softmax(1).detach(), 2)
        with torch.random.fork_rng():
            torch.rand(3)
        if random.random() < 0.5:
            x = x + torch.poisson(x.detach().abs())
        return model.out(x[torch.randperm(len(x)).argsort()])

    random.seed(1)
    return fit(watch, of(forward, a=nn.Linear(8, 8), out=nn.Linear(8, 3)))


def attention_of_all_kinds(watch: Watch) -> Losses:
    def forward(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        q, k, v = model.a(x).view(1, 16, 3, 2, 4).permute(2, 0, 3, 1, 4)
        mask = torch.ones(16, 16, dtype=torch.bool).tril()
        attend = functional.scaled_dot_product_attention
        x = attend(q, k, v, attn_mask=mask) + attend(q, k, v, dropout_p=0.3, is_causal=True)
        x = x + attend(q.bfloat16(), k.bfloat16(), v.bfloat16()).float()
        return model.out(x.transpose(1, 2).reshape(16, 8))

    return fit(watch, of(forward, a=nn.Linear(8, 24), out=nn.Linear(8, 3)))


def fp8_casts(watch: Watch) -> Losses:
    def forward(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        scale = 448 / model.a.weight.detach().abs().max()
        weight = (
            model.a.weight
            + (
                (model.a.weight * scale).to(torch.float8_e4m3fn).float() / scale - model.a.weight
            ).detach()
        )
        x = functional.linear(x.to(torch.float8_e5m2).to(torch.float32), weight)
        return model.out(x.relu())

    return fit(watch, of(forward, a=nn.Linear(8, 8), out=nn.Linear(8, 3)))


def an_epoch_in_inference_mode(watch: Watch) -> Losses:
    """Between the steps, with batch norm in train and in eval; its tensors are used afterwards."""
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        model.eval()
        with torch.inference_mode():
            bias = model(x).mean()
        model.train()
        with torch.no_grad():
            model(x)
        return cross_entropy(model(x), y) + bias.clone().item()

    return fit(watch, model, loss_of)


def evaluations_under_autocast(watch: Watch) -> Losses:
    """Kernels that call operators of autocast's lists themselves: the encoder layer's fast path,
    and composite operators in inference mode.
    """

    class Encoded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
            self.recurrent = nn.GRU(8, 8, batch_first=True)
            self.head = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows = self.encoder(torch.stack([x, x.flip(0), -x], dim=1))
            distances = torch.cdist(rows.float(), rows.float()).mean(dim=2, keepdim=True)
            return self.head(self.recurrent(rows)[0][:, -1]) + distances[:, 0]

    model = Encoded()
    nanny = watch(model)
    descent = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(STEPS):
        x, y = batch()
        descent.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = cross_entropy(model(x), y)
        loss.backward()
        descent.step()
        losses.append(loss.item())
        model.eval()
        for without in (torch.no_grad, torch.inference_mode):
            with without(), torch.autocast("cpu", torch.bfloat16):
                out = model(x)
                low = nn.functional.scaled_dot_product_attention(out[None], out[None], out[None])
                losses += [out.sum().item(), torch.einsum("ij,ij->", out, low[0]).item()]
        model.train()
    nanny.close()
    return losses, model


def averages_and_copies(watch: Watch) -> Losses:
    """A copy of the model in the middle of a step, its average, a checkpoint, weights loaded."""
    model = Mlp()
    average = copy.deepcopy(model).requires_grad_(False)

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for mine, other in zip(average.parameters(), model.parameters(), strict=True):
                mine.lerp_(other, 0.1)
            teacher = average(x)
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        model.load_state_dict(torch.load(file))
        twin = copy.deepcopy(model)
        assert not any(each.requires_grad for each in average.parameters())
        loss = cross_entropy(model(x), y) + functional.mse_loss(model(x), teacher)
        return loss + 0 * twin(x).sum().detach()

    return fit(watch, model, loss_of)


def memory_that_is_exchanged(watch: Watch) -> Losses:
    """Parameters are views of one flat memory, which is another one in every step."""
    model = Mlp()

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        flat = torch.cat([each.detach().flatten() for each in model.parameters()])
        at = 0
        for each in model.parameters():
            each.data = flat[at : at + each.numel()].view(each.shape)
            at += each.numel()
        return cross_entropy(model(x), y)

    return fit(watch, model, loss_of)


def rows_that_are_renormed(watch: Watch) -> Losses:
    """An embedding that changes its weights in its forward pass, and a bag of them."""
    model = of(
        lambda m, x: m.out(m.table(x.argmax(1)) + m.bag(x.topk(3).indices)),
        table=nn.Embedding(8, 8, max_norm=0.5),
        bag=nn.EmbeddingBag(8, 8, mode="max"),
        out=nn.Linear(8, 3),
    )
    return fit(watch, model)


def recurrent_networks(watch: Watch) -> Losses:
    def forward(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = x.view(16, 4, 2)
        x, _ = model.lstm(x)
        x, _ = model.gru(x.bfloat16())
        return model.out(x[:, -1].float())

    parts = {
        "lstm": nn.LSTM(2, 4, 2, dropout=0.2, batch_first=True, bidirectional=True),
        "gru": nn.GRU(8, 4, batch_first=True).bfloat16(),
        "out": nn.Linear(4, 3),
    }
    return fit(watch, of(forward, **parts))


def images(watch: Watch) -> Losses:
    def forward(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = x.view(16, 1, 2, 4).contiguous(memory_format=torch.channels_last)
        x = functional.interpolate(model.a(x), scale_factor=3, mode="bilinear")
        x = functional.max_pool2d(model.norm(x), 2, return_indices=True)[0]
        grid = functional.affine_grid(torch.eye(2, 3)[None].expand(16, 2, 3), [16, 4, 3, 6])
        x = functional.grid_sample(functional.pad(x, (1, 1, 1, 1), "reflect"), grid)
        return model.out(functional.adaptive_avg_pool2d(x, 1).flatten(1))

    parts = {"a": nn.Conv2d(1, 4, 3, padding=1), "norm": nn.GroupNorm(2, 4), "out": nn.Linear(4, 3)}
    return fit(watch, of(forward, **parts))


def losses_of_all_kinds(watch: Watch) -> Losses:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits = model(x)
        lines = logits.view(4, 4, 3).log_softmax(2)
        targets = torch.ones(4, 2, dtype=torch.long)
        four, two = torch.full((4,), 4), torch.full((4,), 2)
        return (
            functional.ctc_loss(lines, targets, four, two, zero_infinity=True)
            + functional.kl_div(logits.log_softmax(1), x[:, :3].softmax(1), reduction="batchmean")
            + functional.cosine_embedding_loss(logits, x[:, :3], torch.ones(16))
            + functional.huber_loss(logits, x[:, :3])
            + functional.multi_margin_loss(logits, y)
            + torch.linalg.slogdet(logits.T @ logits + torch.eye(3))[1] * 0.01
            + torch.linalg.svdvals(logits).sum() * 0.01
            + torch.cdist(logits, logits).mean()
            + logits.sort(1).values.cumsum(1).mean()
            + torch.einsum("bi,bj->ij", logits, logits).logsumexp(0).mean()
            + logits.scatter(1, y[:, None], 1.0).index_select(0, y).mean()
        )

    return fit(watch, nn.Sequential(nn.Linear(8, 8), nn.ELU(), nn.Linear(8, 3)), loss_of)


def several_passes(watch: Watch) -> Losses:
    """One graph derived twice, a part of the parameters only, gradients by hand."""

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = cross_entropy(model(x), y)
        loss.backward(retain_graph=True, inputs=[model.leave.weight])
        (slope,) = torch.autograd.grad(loss, model.enter.weight, retain_graph=True)
        with torch.no_grad():
            model.enter.weight.sub_(slope, alpha=1e-3)
        x = x.clone().requires_grad_()
        return cross_entropy(model(x), y)

    return fit(watch, Mlp(), loss_of)


def exact_derivatives_twice(watch: Watch) -> Losses:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        weight = model[0].weight
        (first,) = torch.autograd.grad(cross_entropy(model(x), y), weight, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), weight, create_graph=True)
        return cross_entropy(model(x), y) + 1e-2 * second.square().mean()

    return fit(watch, nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)), loss_of)


def steps_that_end_in_an_error(watch: Watch) -> Losses:
    """In the model, in the loss, in the backward pass, in the optimizer; the training goes on."""
    model = Mlp()
    nanny = watch(model)
    descent = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(2 * STEPS):
        with contextlib.suppress(RuntimeError, IndexError):
            x, y = batch()
            descent.zero_grad()
            loss = cross_entropy(model(x if step % 8 != 1 else x[:, :5]), y + 9 * (step % 8 == 3))
            if step % 8 == 5:
                loss = loss + torch.ones(2, requires_grad=True)
            loss.backward()
            if step % 8 == 7:
                model.enter.weight.grad = None
                model.enter.weight.grad = torch.ones(1)
            losses.append(loss.item())
            descent.step()
    nanny.close()
    return losses, model


def deterministic_algorithms(watch: Watch) -> Losses:
    """Memory that nobody has written is filled, and what would draw lots raises."""
    torch.use_deterministic_algorithms(True)
    try:
        return fit(watch, Mlp(), lambda m, x, y: cross_entropy(m(x) + torch.empty(3).zero_(), y))
    finally:
        torch.use_deterministic_algorithms(False)


def doubles_by_default(watch: Watch) -> Losses:
    torch.set_default_dtype(torch.float64)
    torch.set_flush_denormal(True)
    try:
        return fit(watch, Mlp())
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_flush_denormal(False)


FEATURES: dict[str, Callable[[Watch], Losses]] = {
    function.__name__.replace("_", " "): function
    for function in (
        closures,
        accumulated_gradients,
        custom_derivatives,
        results_in_memory_of_mine,
        empty_tensors,
        draws_of_all_kinds,
        attention_of_all_kinds,
        fp8_casts,
        an_epoch_in_inference_mode,
        evaluations_under_autocast,
        averages_and_copies,
        memory_that_is_exchanged,
        rows_that_are_renormed,
        recurrent_networks,
        images,
        losses_of_all_kinds,
        several_passes,
        whole_numbers_of_floats,
        exact_derivatives_twice,
        steps_that_end_in_an_error,
        deterministic_algorithms,
        doubles_by_default,
    )
} | {
    "SGD one by one": optimizer(torch.optim.SGD, momentum=0.9, nesterov=True, foreach=False),
    "SGD in lists": optimizer(torch.optim.SGD, momentum=0.9, weight_decay=0.1, foreach=True),
    # In BF16 torch's own fused momentum is not the same twice.
    "fused SGD": lambda watch: fit(watch, Mlp(), None, torch.optim.SGD, momentum=0.9, fused=True),
    "AdamW one by one": optimizer(torch.optim.AdamW, foreach=False, amsgrad=True),
    "AdamW in lists": optimizer(torch.optim.AdamW, foreach=True, amsgrad=True),
    "fused AdamW": optimizer(torch.optim.AdamW, fused=True),
    "Adafactor": optimizer(torch.optim.Adafactor),
    "RMSprop in lists": optimizer(torch.optim.RMSprop, centered=True, foreach=True),
}
