"""Healthy models of public libraries, small and with random weights: each a function that makes a
Training. Shadow steps must leave all of them alone (library_models_test.py).

A library is imported where its model is made, so that a missing one leaves out its models only.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from library_data import padding, sentences, visits
from library_parts import Training, adamw
from library_pictures import (
    autoencoder_kl,
    convnext,
    dcgan,
    efficientnet,
    mobilenet,
    resnet,
    unet,
    vit,
    vq,
)
from library_words import (
    bert,
    clip,
    gpt2,
    llama,
    mamba,
    mixtral,
    switch,
    t5,
    wav2vec2,
    whisper,
)
from torch import Tensor, nn
from torch.nn import functional

# --- sequences and tables ---


def lstm() -> Training:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(48, 16)
            self.recurrent = nn.LSTM(16, 24, 2, batch_first=True, dropout=0.1, bidirectional=True)
            self.head = nn.Linear(48, 4)

        def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(
                self.words(words), lengths, batch_first=True, enforce_sorted=False
            )
            _, (last, _) = self.recurrent(packed)
            return self.head(torch.cat([last[-2], last[-1]], 1))

    model = Classifier()

    def loss() -> Tensor:
        words, lengths = sentences(16, 12, 48), torch.randint(6, 13, (16,))
        return functional.cross_entropy(model(words, lengths).float(), words[:, 2] % 4)

    return Training(model, [adamw(model, 5e-3)], loss, clip=1.0)


def dlrm() -> Training:
    """Dense columns and bags of ids; the tables have sparse gradients and their own optimizer."""

    class Recommender(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.below = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 8), nn.ReLU())
            bag = {"mode": "sum", "sparse": True}
            self.tables = nn.ModuleList(nn.EmbeddingBag(200, 8, **bag) for _ in range(4))
            self.above = nn.Sequential(nn.Linear(18, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, dense: Tensor, offsets: Tensor, ids: list[Tensor]) -> Tensor:
            columns = [self.below(dense)]
            columns += [table(each, offsets) for table, each in zip(self.tables, ids, strict=True)]
            rows = torch.stack([column.to(columns[0].dtype) for column in columns], 1)
            pairs = torch.bmm(rows, rows.transpose(1, 2))
            first, second = torch.tril_indices(5, 5, -1)
            return self.above(torch.cat([columns[0], pairs[:, first, second]], 1)).squeeze(1)

    model = Recommender()
    tables = torch.optim.SparseAdam(list(model.tables.parameters()), lr=0.01)
    dense = torch.optim.Adagrad([*model.below.parameters(), *model.above.parameters()], lr=0.02)

    def loss() -> Tensor:
        columns, offsets, ids, click = visits(64, 4, 200)
        logits = model(columns, offsets, ids).float()
        return functional.binary_cross_entropy_with_logits(logits, click)

    return Training(model, [dense, tables], loss)


def translator() -> Training:
    """torch.nn.Transformer with its masks, trained by Noam's schedule."""

    class Translator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(48, 32, padding_idx=0)
            self.places = nn.Parameter(0.1 * torch.randn(24, 32))
            self.both = nn.Transformer(32, 4, 2, 2, 64, 0.1, batch_first=True)
            self.head = nn.Linear(32, 48)

        def forward(self, given: Tensor, before: Tensor) -> Tensor:
            source = self.words(given) + self.places[: given.shape[1]]
            target = self.words(before) + self.places[: before.shape[1]]
            later = nn.Transformer.generate_square_subsequent_mask(before.shape[1])
            empty = torch.where(given == 0, -torch.inf, 0.0)
            return self.head(
                self.both(
                    source,
                    target,
                    tgt_mask=later,
                    src_key_padding_mask=empty,
                    memory_key_padding_mask=empty,
                )
            )

    model = Translator()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    noam = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: 0.1 * 32**-0.5 * min((n + 1) ** -0.5, (n + 1) * 100**-1.5)
    )

    def loss() -> Tensor:
        given = sentences(8, 16, 48, first=2) * padding(8, 16)
        target = given.flip(1)
        before = functional.pad(target[:, :-1], (1, 0), value=1)
        logits = model(given, before).float().flatten(0, 1)
        return functional.cross_entropy(
            logits, target.flatten(), ignore_index=0, label_smoothing=0.1
        )

    return Training(model, [optimizer], loss, scheduler=noam, clip=1.0)


MODELS: dict[str, Callable[[], Training]] = {
    each.__name__: each
    for each in (
        resnet, mobilenet, convnext, vit, efficientnet, t5, llama, bert, gpt2, mamba, mixtral,
        switch, whisper, wav2vec2, clip, unet, autoencoder_kl, vq, dcgan, lstm, dlrm, translator,
    )
}  # fmt: skip
