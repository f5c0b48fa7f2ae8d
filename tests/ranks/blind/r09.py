"""ranks: 2

Language model cut into two pipeline stages by hand; input and output embedding are one matrix,
held by both stages.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, SEQ, BATCH = 40, 32, 12, 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        self.attn = nn.MultiheadAttention(DIM, 4, batch_first=True)
        self.norm2 = nn.LayerNorm(DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))
        self.register_buffer(
            "causal", torch.triu(torch.ones(SEQ, SEQ, dtype=torch.bool), 1), persistent=False
        )

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h, h, h, attn_mask=self.causal, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class FirstStage(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Embedding(VOCAB, DIM)
        self.position_embeddings = nn.Embedding(SEQ, DIM)
        nn.init.normal_(self.position_embeddings.weight, std=0.1)
        self.block_0 = Block()

    def forward(self, tokens):
        return self.block_0(self.word_embeddings(tokens) + self.position_embeddings.weight)


class LastStage(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Embedding(VOCAB, DIM)
        self.block_1 = Block()
        self.final_norm = nn.LayerNorm(DIM)

    def forward(self, x):
        return F.linear(self.final_norm(self.block_1(x)), self.word_embeddings.weight)


def build_stage(rank):
    torch.manual_seed(30 + rank)
    stage = FirstStage() if rank == 0 else LastStage()
    with torch.no_grad():
        nn.init.normal_(stage.word_embeddings.weight, std=0.1)
        dist.broadcast(stage.word_embeddings.weight, src=0)
    return stage


def forward_backward(stage, rank, tokens):
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    loss = torch.zeros(())
    if rank == 0:
        hidden = stage(inputs)
        dist.send(hidden.detach().contiguous(), dst=1)
        grad = torch.empty_like(hidden)
        dist.recv(grad, src=1)
        hidden.backward(grad)
    else:
        hidden = torch.empty(BATCH, SEQ, DIM)
        dist.recv(hidden, src=0)
        hidden.requires_grad_(True)
        out = F.cross_entropy(stage(hidden).flatten(0, 1), targets.flatten())
        out.backward()
        dist.send(hidden.grad.contiguous(), dst=0)
        loss = out.detach()
    dist.broadcast(loss, src=1)
    return loss


def reduce_embedding_gradient(stage):
    grad = stage.word_embeddings.weight.grad
    total = grad.clone()
    dist.all_reduce(total)
    if isinstance(stage, FirstStage):  # @fault
        grad.copy_(total)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    stage = build_stage(rank)
    optimizer = torch.optim.AdamW(stage.parameters(), lr=5e-3)
    data = torch.Generator().manual_seed(77)

    for step in range(40):
        start = torch.randint(0, VOCAB, (BATCH, 1), generator=data)
        tokens = (start + 7 * torch.arange(SEQ + 1)) % VOCAB
        optimizer.zero_grad()
        loss = forward_backward(stage, rank, tokens)
        reduce_embedding_gradient(stage)
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
