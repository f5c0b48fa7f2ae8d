"""ranks: 2

Small causal transformer, tensor parallel over two ranks (DTensor), gradients clipped by their
global norm.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

VOCAB, DIM, HEADS, SEQ = 64, 32, 4, 16


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(DIM, DIM, bias=False)
        self.wk = nn.Linear(DIM, DIM, bias=False)
        self.wv = nn.Linear(DIM, DIM, bias=False)
        self.wo = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (
            w(x).view(b, s, -1, DIM // HEADS).transpose(1, 2) for w in (self.wq, self.wk, self.wv)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, s, -1))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(DIM, 4 * DIM, bias=False)
        self.w2 = nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x):
        return self.w2(F.gelu(self.w1(x)))


class TransformerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.LayerNorm(DIM)
        self.attention = Attention()
        self.ffn_norm = nn.LayerNorm(DIM)
        self.feed_forward = FeedForward()

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Transformer(nn.Module):
    def __init__(self, n_layers=2):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCAB, DIM)
        self.pos_embeddings = nn.Embedding(SEQ, DIM)
        self.layers = nn.ModuleList(TransformerBlock() for _ in range(n_layers))
        self.norm = nn.LayerNorm(DIM)
        self.output = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens) + self.pos_embeddings.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def apply_tp(model, mesh):
    for layer in model.layers:
        parallelize_module(
            layer,
            mesh,
            {
                "attention.wq": ColwiseParallel(),
                "attention.wk": ColwiseParallel(),
                "attention.wv": ColwiseParallel(),
                "attention.wo": RowwiseParallel(),
                "feed_forward.w1": ColwiseParallel(),
                "feed_forward.w2": RowwiseParallel(),
            },
        )


@torch.no_grad()
def clip_gradients(parameters, max_norm, group):
    grads = [p.grad for p in parameters if p.grad is not None]
    local = [g.to_local() if isinstance(g, DTensor) else g for g in grads]
    total = torch.stack([g.float().pow(2).sum() for g in local]).sum()  # @fault
    dist.all_reduce(total, group=group)
    total_norm = total.sqrt()
    coefficient = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
    for g in local:
        g.mul_(coefficient)
    return total_norm


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    torch.manual_seed(11)

    model = Transformer()
    apply_tp(model, mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    data = torch.Generator().manual_seed(5)

    for step in range(40):
        start = torch.randint(0, VOCAB, (8, 1), generator=data)
        stride = torch.randint(1, 4, (8, 1), generator=data)
        tokens = (start + stride * torch.arange(SEQ + 1)) % VOCAB
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        grad_norm = clip_gradients(model.parameters(), 0.5, mesh.get_group("tp"))
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(
                f"step {step} loss {loss.item():.4f} grad_norm {grad_norm.item():.4f}", flush=True
            )

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
