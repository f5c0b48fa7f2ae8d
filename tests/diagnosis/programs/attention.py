"""Transformers in FP16: ranges that pre-training in another precision left behind, and masks."""

from __future__ import annotations

import torch
from planted import WITNESSED, Label, Watch, pick, planted
from torch import nn
from torch.nn import functional


class RmsNorm(nn.Module):
    """In FP32, as it should be."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.float()
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class GatedFfn(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.wi_0 = nn.Linear(width, hidden, bias=False)
        self.wi_1 = nn.Linear(width, hidden, bias=False)
        self.wo = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.wo(functional.gelu(self.wi_0(x)) * self.wi_1(x))


class T5Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = RmsNorm(width)
        self.ffn = GatedFfn(width, 2 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.ffn(self.norm(x))


class T5(nn.Module):
    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.shared = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(T5Block(width) for _ in range(depth))
        self.norm = RmsNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.shared(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@torch.no_grad()
def pretrained_in_bf16(model: T5, token: int, block: int) -> None:
    """The state that long training in BF16 leaves: one dimension carries one token, and in one
    block one neuron answers to it with values of which only BF16 holds the sum.
    """
    width = model.shared.embedding_dim
    model.shared.weight[:, 0] = 0
    model.shared.weight[token] = 0
    model.shared.weight[token, 0] = 30.0
    for each in model.blocks:
        each.ffn.wo.weight[0] = 0
    ffn = model.blocks[block].ffn
    size = 140.0 / width**0.5  # 140 for the token, whose norm is the root of the width
    ffn.wi_0.weight[1, 0] = ffn.wi_1.weight[1, 0] = size
    ffn.wo.weight[:, 1] = 4.5 * torch.sign(torch.randn(width))


@planted
def gated_ffn_of_a_bf16_checkpoint(watch: Watch, v: int) -> Label:
    """A checkpoint from BF16 is fine-tuned in FP16; its token for BF16 comes at step `at`."""
    torch.manual_seed(100 + v)
    at, depth, bad = pick(v, 23, 37, 58), pick(v, 2, 3, 4), pick(v, 1, 0, 2)
    vocabulary, token = 40, 39
    model = T5(vocabulary, pick(v, 24, 32, 40), depth)
    pretrained_in_bf16(model, token, bad)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    nanny = watch(model, optimizer, scaler=scaler, trace_interval=10)
    for step in range(at + 25):
        tokens = torch.randint(0, vocabulary - 1, (8, 12))
        target = (tokens * 3 + 1) % (vocabulary - 1)
        if step >= at:  # the second shard of the data
            tokens[torch.rand(tokens.shape) < 0.1] = token
            tokens[0, 0] = token
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(tokens)
            loss = functional.cross_entropy(logits.float().flatten(0, 1), target.flatten())
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss)
    nanny.close()
    return Label(
        ("t5-ffn-wo-fp16-overflow", "bf16-pretrained-weights-run-in-fp16"),
        WITNESSED,
        "forward",
        f"blocks.{bad}.ffn.wo",
        "broken",
    )


class PegasusLayer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(functional.relu(self.up(self.norm(x))))


class Pegasus(nn.Module):
    def __init__(self, features: int, width: int, depth: int) -> None:
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.layers = nn.ModuleList(PegasusLayer(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.leave = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for layer in self.layers:
            x = layer(x)
        return self.leave(self.norm(x)).mean(1)


@planted
def residual_stream_of_half(watch: Watch, v: int) -> Label:
    """Every layer adds to the same channel; each term fits FP16, their sum does not."""
    torch.manual_seed(110 + v)
    at, depth, bad = pick(v, 31, 12, 44), pick(v, 4, 5, 6), pick(v, 2, 3, 4)
    width, features = pick(v, 32, 40, 48), 8
    model = Pegasus(features, width, depth)
    with torch.no_grad():  # a checkpoint with a massive channel, which one feature opens
        model.enter.weight[0] = 0
        model.enter.weight[:, 0] = 0
        model.enter.weight[0, 0] = 50.0
        for layer in model.layers:
            layer.down.weight[0] = 0
            layer.up.weight[0] = 0
            layer.up.weight[0, 0] = 10.0
            layer.up.bias[0] = -20.0
            layer.down.weight[:, 0] = 0
        term = 65504.0 / (bad + 0.6) / (10.0 * (width - 1) ** 0.5 - 20.0)
        for layer in model.layers:
            layer.down.weight[0, 0] = term
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    nanny = watch(model, trace_interval=1)  # optimizer and scaler are left to be found
    centres = torch.randn(5, features)
    for step in range(at + 20):
        y = torch.randint(0, 5, (16,))
        x = centres[y][:, None] + 0.5 * torch.randn(16, 6, features)
        x[:, :, 0] = 0.0
        if step >= at:  # sentences with the separator that pre-training used
            x[: pick(v, 1, 3, 2), 0] = torch.eye(features)[0] * 8.0
        with nanny.step(step):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = functional.cross_entropy(model(x).float(), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    nanny.close()
    return Label("residual-add-overflow-pegasus", WITNESSED, "forward", f"layers.{bad}", "broken")


class Attention(nn.Module):
    """Self-attention by hand; `context` makes it cross-attention."""

    def __init__(self, width: int, source: int) -> None:
        super().__init__()
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(source, width, bias=False)
        self.to_v = nn.Linear(source, width, bias=False)
        self.to_out = nn.Linear(width, width)
        self.scale = width**-0.5

    def forward(
        self, x: torch.Tensor, context: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        q, k, v = self.to_q(x), self.to_k(context), self.to_v(context)
        scores = q @ k.transpose(-1, -2) * self.scale
        if mask is not None:
            scores = scores + (1.0 - mask.to(scores.dtype)) * -1e9
        return self.to_out(torch.softmax(scores, dim=-1) @ v)


class UnetBlock(nn.Module):
    def __init__(self, width: int, source: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attn = Attention(width, source)
        self.ff = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm(x), context)
        return x + self.ff(x)


class Unet(nn.Module):
    def __init__(self, width: int, source: int, depth: int) -> None:
        super().__init__()
        self.enter = nn.Linear(4, width)
        self.blocks = nn.ModuleList(UnetBlock(width, source) for _ in range(depth))
        self.leave = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for block in self.blocks:
            x = block(x, context)
        return self.leave(x)


@planted
def query_times_key_before_the_scale(watch: Watch, v: int) -> Label:
    """Queries times keys pass 65504 before they are scaled down, for prompts of a large norm."""
    torch.manual_seed(120 + v)
    at, depth, bad = pick(v, 18, 45, 33), pick(v, 3, 2, 4), pick(v, 1, 0, 3)
    width, source = pick(v, 32, 48, 24), 16
    model = Unet(width, source, depth)
    with torch.no_grad():  # as found in the released checkpoint
        model.blocks[bad].attn.to_q.weight.mul_(40.0)
        model.blocks[bad].attn.to_k.weight.mul_(4.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    nanny = watch(model, optimizer, scaler, trace_interval=50)
    for step in range(at + 30):
        clean = torch.randn(4, 10, 4)
        noise = torch.randn_like(clean)
        context = torch.randn(4, 7, source)
        if step >= at:  # prompts from the encoder's last layer, before its norm
            context = context * 1500.0
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.float16):
                predicted = model(0.7 * clean + 0.7 * noise, context)
            loss = functional.mse_loss(predicted.float(), noise)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss.item())
    nanny.close()
    return Label("sd21-attention-qk-overflow", WITNESSED, "forward", f"blocks.{bad}.attn", "broken")


class MaskedEncoder(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.attention = nn.ModuleList(Attention(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.classify = nn.Linear(width, 4)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        x = self.embed(tokens)
        for norm, attention in zip(self.norms, self.attention, strict=True):
            y = norm(x)
            x = x + attention(y, y, None if mask is None else mask[:, None, :] * mask[:, :, None])
        return self.classify(x[:, 0])


@planted
def mask_of_minus_1e9_in_half(watch: Watch, v: int) -> Label:
    """-1e9 is -Inf in FP16, so the rows of padding are NaN, where FP32 would make them uniform. The
    first padded batch comes at step `at`; until then the mask is None.
    """
    torch.manual_seed(130 + v)
    at, depth = pick(v, 26, 9, 51), pick(v, 2, 3, 4)
    model = MaskedEncoder(pick(v, 32, 24, 48), depth)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    nanny = watch(model, optimizer, scaler, trace_interval=10)
    for step in range(at + 20):
        tokens = torch.randint(1, 50, (8, 10))
        y = tokens[:, 0] % 4
        mask = None
        if step >= at:  # longer texts came first
            lengths = torch.randint(4, 11, (8,))
            lengths[-1] = 5
            mask = (torch.arange(10) < lengths[:, None]).long()
        with nanny.step(step) as record:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = functional.cross_entropy(model(tokens, mask), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            record.log(loss=loss)
    nanny.close()
    return Label("mask-fill-constant-overflows-half", WITNESSED, "forward", "attention.0", "broken")


class TextClassifier(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(60, width, padding_idx=0)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "attn": nn.MultiheadAttention(width, 4, batch_first=True),
                    "norm": nn.LayerNorm(width),
                }
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        padding = tokens == 0
        x = self.embed(tokens)
        for block in self.blocks:
            x = block["norm"](x + block["attn"](x, x, x, key_padding_mask=padding)[0])
        return self.head(x.mean(1))


@planted
def text_without_a_word(watch: Watch, v: int) -> Label:
    """A text that is empty after cleaning: its whole row is masked, the softmax is NaN. FP32."""
    torch.manual_seed(140 + v)
    at = pick(v, 34, 57, 13)
    model = TextClassifier(pick(v, 32, 64, 48), pick(v, 1, 2, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    nanny = watch(model, trace_interval=100)
    for step in range(at + 15):
        tokens = torch.randint(1, 60, (16, 12))
        tokens[torch.arange(12) >= torch.randint(3, 13, (16, 1))] = 0
        y = tokens[:, 0] % 3
        if step == at:
            tokens[pick(v, 5, 0, 11)] = 0
        with nanny.step(step) as record:
            loss = functional.cross_entropy(model(tokens), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
    nanny.close()
    return Label(
        "fully-masked-row-softmax-nan", WITNESSED, "forward", "blocks.0.attn", "broken", False
    )
