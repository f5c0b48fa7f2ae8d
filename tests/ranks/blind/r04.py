"""ranks: 2

Character model (GRU) with gradient accumulation over four micro-batches, DDP.
"""

import contextlib

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

TEXT = (
    "the quick brown fox jumps over the lazy dog and then sleeps under the old tree until "
    "the morning comes when it wakes and looks for the same dog who has gone to the river "
    "with the rest of the village "
) * 8
CHARS = sorted(set(TEXT))
ACCUMULATE = 4


class CharModel(nn.Module):
    def __init__(self, vocab, dim=32, hidden=48):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, hidden, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.decoder = nn.Linear(hidden, vocab)

    def forward(self, x):
        h, _ = self.rnn(self.embedding(x))
        return self.decoder(self.dropout(h))


def micro_batches(rank, seq=24, batch=8):
    ids = torch.tensor([CHARS.index(c) for c in TEXT])
    g = torch.Generator().manual_seed(20 + rank)
    while True:
        at = torch.randint(0, len(ids) - seq - 1, (batch,), generator=g)
        block = torch.stack([ids[i : i + seq + 1] for i in at.tolist()])
        yield block[:, :-1], block[:, 1:]


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = CharModel(len(CHARS))
    ddp = DDP(model)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=5e-3, weight_decay=0.01)
    torch.manual_seed(1000 + rank)
    stream = micro_batches(rank)

    for step in range(30):
        optimizer.zero_grad()
        total = 0.0
        for micro in range(ACCUMULATE):
            x, y = next(stream)
            last = micro == ACCUMULATE - 1
            with contextlib.nullcontext() if last else ddp.no_sync():
                loss = F.cross_entropy(ddp(x).flatten(0, 1), y.flatten()) / ACCUMULATE
                loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 0.3)
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(f"step {step} loss {total:.4f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
