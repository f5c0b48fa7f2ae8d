"""Small models of the families that people train, as their papers and tutorials build them."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import rnn
from torch.utils.checkpoint import checkpoint


class Cnn(nn.Module):
    """Convolution, BatchNorm and ReLU in place, pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.leave = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leave(self.body(x))


class ResidualBlock(nn.Module):
    def __init__(self, entering: int, leaving: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(entering, leaving, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(leaving)
        self.conv2 = nn.Conv2d(leaving, leaving, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(leaving)
        nn.init.zeros_(self.norm2.weight)  # as torchvision's zero_init_residual
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = (
            nn.Sequential(nn.Conv2d(entering, leaving, 1, stride, bias=False))
            if stride != 1 or entering != leaving
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        y += self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.enter = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(
            ResidualBlock(width, width, 1),
            ResidualBlock(width, 2 * width, 2),
            ResidualBlock(2 * width, 2 * width, 1),
        )
        self.leave = nn.Linear(2 * width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leave(self.blocks(self.enter(x)).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class GptBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """With a tied head. `checkpointing`: None, or use_reentrant of every block."""

    VOCABULARY, LENGTH = 61, 24

    def __init__(
        self, width: int = 48, depth: int = 2, heads: int = 4, checkpointing: bool | None = None
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(self.VOCABULARY, width)
        self.positions = nn.Embedding(self.LENGTH, width)
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, self.VOCABULARY, bias=False)
        self.checkpointing = checkpointing
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        x = self.drop(x)
        for block in self.blocks:
            if self.checkpointing is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.checkpointing)
        return self.head(self.norm(x))


class Lstm(nn.Module):
    """Classifies sequences of different lengths, packed."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tokens = nn.Embedding(32, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, width, num_layers=2, dropout=0.1, batch_first=True)
        self.leave = nn.Linear(width, 4)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = rnn.pack_padded_sequence(
            self.tokens(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        _, (hidden, _) = self.lstm(packed)
        return self.leave(hidden[-1])


class Gan(nn.Module):
    """Generator and discriminator of points on a ring: called one by one, never together."""

    NOISE = 8

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.Linear(self.NOISE, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2)
        )
        self.discriminator = nn.Sequential(
            nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(32, 1)
        )


class UNet(nn.Module):
    """Predicts the noise in an image at a given time, with skip connections and GroupNorm."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(16, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
        self.enter = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.Sequential(
            nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 2 * width, 3, 2, 1)
        )
        self.middle = nn.Sequential(
            nn.GroupNorm(4, 2 * width), nn.SiLU(), nn.Conv2d(2 * width, 2 * width, 3, 1, 1)
        )
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.leave = nn.Sequential(
            nn.GroupNorm(4, 2 * width), nn.SiLU(), nn.Conv2d(2 * width, 1, 3, 1, 1)
        )

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        rates = torch.exp(-math.log(1000.0) * torch.arange(8, device=x.device) / 8)
        angles = time[:, None].float() * rates
        when = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        first = self.enter(x) + when[:, :, None, None]
        low = self.down(first)
        low = low + self.middle(low)
        return self.leave(torch.cat([first, self.up(low)], dim=1))


class Autoencoder(nn.Module):
    """`variational`: draws its code, and answers mean and logarithm of the variance as well."""

    def __init__(self, variational: bool) -> None:
        super().__init__()
        self.variational = variational
        self.encoder = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 8))
        self.decoder = nn.Sequential(nn.Linear(4 if variational else 8, 48), nn.ReLU())
        self.leave = nn.Linear(48, 32)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        code = self.encoder(x)
        mean, spread = code.chunk(2, dim=1)
        if self.variational:
            code = mean + torch.randn_like(mean) * (0.5 * spread).exp()
        return self.leave(self.decoder(code)), mean, spread


class Recommender(nn.Module):
    """Sparse gradients of the embeddings, dense ones of the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(200, 8, sparse=True)
        self.items = nn.EmbeddingBag(300, 8, mode="mean", sparse=True)
        self.top = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, user: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        return self.top(torch.cat([self.users(user), self.items(items)], dim=1)).squeeze(1)


class Translator(nn.Module):
    """torch's own Transformer with masks of -inf and padding, post-norm."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tokens = nn.Embedding(24, width, padding_idx=0)
        self.transformer = nn.Transformer(
            width, 4, 1, 1, dim_feedforward=64, dropout=0.1, batch_first=True
        )
        self.leave = nn.Linear(width, 24)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], source.device)
        mixed = self.transformer(
            self.tokens(source),
            self.tokens(target),
            tgt_mask=causal,
            src_key_padding_mask=torch.zeros(source.shape, device=source.device).masked_fill(
                source == 0, -math.inf
            ),
        )
        return self.leave(mixed)


class Contrastive(nn.Module):
    """Two towers and a learnt temperature, as in CLIP."""

    def __init__(self) -> None:
        super().__init__()
        self.images = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 16))
        self.texts = nn.Sequential(nn.Embedding(4, 32), nn.Linear(32, 16))
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        left = functional.normalize(self.images(image), dim=1)
        right = functional.normalize(self.texts(text), dim=1)
        return self.logit_scale.exp() * left @ right.T


class LowRank(nn.Module):
    """A frozen linear layer with a trainable detour of low rank; its second factor starts at 0."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(x)) * 2.0


def with_low_rank(model: Gpt) -> Gpt:
    """`model` frozen, its attention adapted."""
    model.requires_grad_(False)
    for block in model.blocks:
        block.attention.qkv = LowRank(block.attention.qkv)
        block.attention.out = LowRank(block.attention.out)
    return model


class Experts(nn.Module):
    """A mixture of experts of which each input takes the best two."""

    def __init__(self, width: int = 32, experts: int = 4) -> None:
        super().__init__()
        self.enter = nn.Linear(32, width)
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
            for _ in range(experts)
        )
        self.norm, self.leave = nn.LayerNorm(width), nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        share, chosen = self.gate(x).softmax(1).topk(2)
        mixed = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            row, place = (chosen == index).nonzero(as_tuple=True)
            if len(row):
                out = expert(x[row]) * share[row, place, None]
                mixed = mixed.index_add(0, row, out.to(mixed.dtype))
        return self.leave(self.norm(x + mixed))
