"""ranks: 2

Patch transformer for small pictures, DDP; the normalisation layers' gradients are kept in step
between the ranks.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class EncoderBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, classes=8, dim=32, depth=2):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, 4, stride=4)
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 9, dim))
        self.blocks = nn.ModuleList(EncoderBlock(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))


def allreduce_layernorm_grads(model):
    grads = []
    for name, p in model.named_parameters():
        if "norm" in name and p.grad is not None:
            grads.append(p.grad)
    flat = torch._utils._flatten_dense_tensors(grads)
    dist.all_reduce(flat)  # @fault
    whole = torch._utils._unflatten_dense_tensors(flat, grads)
    for grad, synced in zip(grads, whole, strict=True):
        grad.copy_(synced)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(61)

    model = VisionTransformer()
    ddp = DDP(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    prototypes = torch.randn(8, 3, 12, 12, generator=torch.Generator().manual_seed(62))
    data = torch.Generator().manual_seed(63 + rank)

    for step in range(40):
        y = torch.randint(0, 8, (16,), generator=data)
        x = prototypes[y] + 0.8 * torch.randn(16, 3, 12, 12, generator=data)
        loss = F.cross_entropy(ddp(x), y)
        optimizer.zero_grad()
        loss.backward()
        allreduce_layernorm_grads(model)
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
