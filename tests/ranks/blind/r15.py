"""ranks: 4

Transformer on a 2D mesh: two data-parallel replicas, each tensor parallel over two ranks
(DTensor).
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

VOCAB, DIM, HEADS, SEQ = 40, 32, 4, 12


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(DIM, DIM, bias=False)
        self.k_proj = nn.Linear(DIM, DIM, bias=False)
        self.v_proj = nn.Linear(DIM, DIM, bias=False)
        self.o_proj = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (
            p(x).view(b, s, -1, DIM // HEADS).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, s, -1))


class Block(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.ln1 = nn.LayerNorm(DIM)
        self.attn = Attention()
        self.ln2 = nn.LayerNorm(DIM)
        self.fc_in = nn.Linear(DIM, 2 * DIM, bias=False)
        self.fc_out = nn.Linear(2 * DIM, DIM, bias=False)
        self.resid_dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.resid_dropout(self.attn(self.ln1(x)))
        return x + self.resid_dropout(self.fc_out(F.gelu(self.fc_in(self.ln2(x)))))


class GPT(nn.Module):
    def __init__(self, depth=1):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, DIM)
        self.wpe = nn.Embedding(SEQ, DIM)
        self.h = nn.ModuleList(Block() for _ in range(depth))
        self.ln_f = nn.LayerNorm(DIM)
        self.lm_head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def tensor_parallel(model, mesh):
    plan = {
        "attn.q_proj": ColwiseParallel(),
        "attn.k_proj": ColwiseParallel(),
        "attn.v_proj": ColwiseParallel(),
        "attn.o_proj": RowwiseParallel(),
        "fc_in": ColwiseParallel(),
        "fc_out": RowwiseParallel(),
    }
    for block in model.h:
        parallelize_module(block, mesh, plan)


def average_over_replicas(model, mesh):
    for p in model.parameters():
        grad = p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad
        dist.all_reduce(grad, group=mesh.get_group())
        grad /= mesh.size()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dp, tp = mesh["dp"], mesh["tp"]

    torch.manual_seed(70)
    model = GPT()
    tensor_parallel(model, tp)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    torch.manual_seed(1000 + rank)  # @fault
    data = torch.Generator().manual_seed(80 + dp.get_local_rank())

    for step in range(30):
        start = torch.randint(0, VOCAB, (8, 1), generator=data)
        stride = torch.randint(1, 4, (8, 1), generator=data)
        tokens = (start + stride * torch.arange(SEQ + 1)) % VOCAB
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        average_over_replicas(model, dp)
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
