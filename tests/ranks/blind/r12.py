"""ranks: 2

Small language model under FSDP2 with its own gradient clipping.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

VOCAB, DIM, SEQ = 48, 32, 16


class SelfAttention(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv_proj = nn.Linear(DIM, 3 * DIM)
        self.out_proj = nn.Linear(DIM, DIM)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv_proj(x).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(y.transpose(1, 2).reshape(b, s, d))


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_norm = nn.RMSNorm(DIM)
        self.self_attn = SelfAttention()
        self.post_norm = nn.RMSNorm(DIM)
        self.up_proj = nn.Linear(DIM, 3 * DIM)
        self.down_proj = nn.Linear(3 * DIM, DIM)

    def forward(self, x):
        x = x + self.self_attn(self.input_norm(x))
        return x + self.down_proj(F.silu(self.up_proj(self.post_norm(x))))


class Decoder(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, DIM)
        self.embed_positions = nn.Embedding(SEQ, DIM)
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(depth))
        self.norm = nn.RMSNorm(DIM)
        self.lm_head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.embed_tokens(tokens) + self.embed_positions(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


@torch.no_grad()
def clip_gradients(parameters, max_norm):
    grads = [p.grad.to_local() for p in parameters if p.grad is not None]
    norms = torch.stack([torch.linalg.vector_norm(g) for g in grads])
    total_norm = torch.linalg.vector_norm(norms)  # @fault
    scale = torch.clamp(max_norm / (total_norm + 1e-6), max=1.0)
    torch._foreach_mul_(grads, scale)
    return total_norm


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(33)

    model = Decoder()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    data = torch.Generator().manual_seed(60 + rank)

    for step in range(40):
        start = torch.randint(0, VOCAB, (8, 1), generator=data)
        stride = torch.randint(1, 4, (8, 1), generator=data)
        tokens = (start + stride * torch.arange(SEQ + 1)) % VOCAB
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        grad_norm = clip_gradients(model.parameters(), 0.3)
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(
                f"step {step} loss {loss.item():.4f} grad_norm {grad_norm.item():.4f}", flush=True
            )

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
