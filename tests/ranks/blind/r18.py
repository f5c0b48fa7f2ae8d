"""ranks: 2

Sequence model on texts of uneven length; data parallel by hand, the loss is per token of the
whole step.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

VOCAB, PAD = 32, 0


class Tagger(nn.Module):
    def __init__(self, dim=24, hidden=32, tags=6):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.tag_head = nn.Linear(2 * hidden, tags)

    def forward(self, tokens):
        h, _ = self.lstm(self.embedding(tokens))
        return self.tag_head(h)


def make_batch(g, rank):
    batch = int(torch.randint(3, 13, (1,), generator=g))
    longest = 6 if rank == 0 else 20
    lengths = torch.randint(2, longest + 1, (batch,), generator=g)
    tokens = torch.randint(1, VOCAB, (batch, int(lengths.max())), generator=g)
    valid = torch.arange(tokens.shape[1])[None, :] < lengths[:, None]
    tags = tokens % 6
    return tokens.masked_fill(~valid, PAD), tags.masked_fill(~valid, -100)


def sum_gradients(model):
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)


def clip_by_global_norm(model, max_norm):
    norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in model.parameters()))
    if norm > max_norm:
        for p in model.parameters():
            p.grad.mul_(max_norm / norm)
    return norm


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(51)

    model = Tagger()
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    data = torch.Generator().manual_seed(52 + rank)

    for step in range(50):
        tokens, tags = make_batch(data, rank)
        count = (tags != -100).sum()
        dist.all_reduce(count)
        logits = model(tokens)
        total = F.cross_entropy(
            logits.flatten(0, 1), tags.flatten(), ignore_index=-100, reduction="sum"
        )
        loss = total / count
        optimizer.zero_grad()
        loss.backward()
        sum_gradients(model)
        clip_by_global_norm(model, 1.0)
        optimizer.step()
        if step % 10 == 0:
            whole = loss.detach().clone()
            dist.all_reduce(whole)
            if rank == 0:
                print(f"step {step} loss {whole.item():.4f} tokens {int(count)}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
