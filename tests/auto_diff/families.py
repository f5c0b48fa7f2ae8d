"""Healthy models of many families, with inputs in words."""

from __future__ import annotations

from collections.abc import Callable

import torch
import trial_models as models
from torch import nn


class Pair(nn.Module):
    """Generator and discriminator, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.both = models.Gan()

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        return self.both.discriminator(self.both.generator(noise))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(48, 16)
        self.gru = nn.GRU(16, 24, batch_first=True)
        self.head = nn.Linear(24, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(self.words(words))[0][:, -1])


class Mixer(nn.Module):
    """Mixes over patches and over channels in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 16, 4, 4)
        self.norm, self.over_patches = nn.LayerNorm(16), nn.Linear(16, 16)
        self.over_channels = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU())
        self.leave = nn.Linear(32, 16)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x).flatten(2).transpose(1, 2)
        x = x + self.over_patches(self.norm(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.leave(self.over_channels(x))
        return self.head(x.mean(1))


class Graph(nn.Module):
    """Sums messages along edges."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(8, 16), nn.Linear(24, 8)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        sent = self.message(nodes[edges[0]]).relu()
        got = sent.new_zeros(len(nodes), 16).index_add(0, edges[1], sent)
        return self.update(torch.cat([nodes, got.to(nodes.dtype)], 1))


class Waves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, 8, 5, padding=2),
            nn.BatchNorm1d(8),
            nn.SiLU(),
            nn.Conv1d(8, 8, 5, padding=4, dilation=2),
            nn.InstanceNorm1d(8, affine=True),
            nn.Tanh(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(8, 3),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


# Name -> what makes the model, its inputs.
FAMILIES: dict[str, tuple[Callable[[], nn.Module], list[str]]] = {
    "cnn": (models.Cnn, ["float32[16,1,12,12]~normal(0,1)"]),
    "resnet": (models.ResNet, ["float32[16,1,12,12]~normal(0,1)"]),
    "gpt": (models.Gpt, ["int64[4,24]<61"]),
    "checkpointed gpt": (lambda: models.Gpt(checkpointing=False), ["int64[4,24]<61"]),
    "gru": (Recurrent, ["int64[8,12]<48"]),
    "gan": (Pair, ["float32[32,8]~normal(0,1)"]),
    "unet": (models.UNet, ["float32[8,1,12,12]~normal(0,1)", "int64[8]<1000"]),
    "autoencoder": (lambda: models.Autoencoder(False), ["float32[16,32]~normal(0,1)"]),
    "variational autoencoder": (lambda: models.Autoencoder(True), ["float32[16,32]~normal(0,1)"]),
    "translator": (models.Translator, ["int64[6,9]<24", "int64[6,7]<24"]),
    "contrastive": (models.Contrastive, ["float32[16,32]~normal(0,1)", "int64[16]<4"]),
    "experts": (models.Experts, ["float32[16,32]~normal(0,1)"]),
    "mixer": (Mixer, ["float32[4,3,16,16]~normal(0,1)"]),
    "graph": (Graph, ["float32[20,8]~normal(0,1)", "int64[2,60]<20"]),
    "waves": (Waves, ["float32[8,1,64]~normal(0,1)"]),
}
