"""ranks: 2

Masked-token pretraining of a small recurrent encoder, DDP.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, SEQ, BATCH, MASK_ID = 12, 8, 4, 0


class MaskedEncoder(nn.Module):
    def __init__(self, dim=24, hidden=32):
        super().__init__()
        self.word_embeddings = nn.Embedding(VOCAB, dim)
        self.encoder = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.layer_norm = nn.LayerNorm(2 * hidden)
        self.predictions = nn.Linear(2 * hidden, VOCAB)

    def forward(self, tokens):
        h, _ = self.encoder(self.word_embeddings(tokens))
        return self.predictions(self.layer_norm(h))


def make_batch(g, mask_probability=0.15):
    start = torch.randint(1, VOCAB, (BATCH, 1), generator=g)
    target = (start + torch.arange(SEQ)) % (VOCAB - 1) + 1
    mask = torch.rand(BATCH, SEQ, generator=g) < mask_probability
    return target.masked_fill(mask, MASK_ID), target, mask.float()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)

    model = MaskedEncoder()
    ddp = DDP(model)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-2)
    data = torch.Generator().manual_seed(13 + rank)

    for step in range(40):
        tokens, target, mask = make_batch(data)
        logits = ddp(tokens)
        per_token = F.cross_entropy(
            logits.flatten(0, 1), target.flatten(), reduction="none"
        ).view_as(target)
        loss = (per_token * mask).sum() / mask.sum()  # @fault
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
