"""ranks: 2

Encoder for sequence classification, tensor parallel over two ranks (DTensor), dropout inside
and outside the shards.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

VOCAB, DIM, SEQ, CLASSES = 40, 32, 10, 4


class ShardDropout(nn.Module):
    """Dropout on a piece of the hidden activations: every rank of the group draws its own mask."""

    def __init__(self, p, seed):
        super().__init__()
        self.p = p
        self.generator = torch.Generator().manual_seed(seed)

    def forward(self, x):
        if not self.training:
            return x
        keep = torch.rand(x.shape, generator=self.generator) >= self.p
        return x * keep / (1 - self.p)


class FeedForward(nn.Module):
    def __init__(self, p, shard_seed):
        super().__init__()
        self.dense_h_to_4h = nn.Linear(DIM, 4 * DIM)
        self.hidden_dropout = ShardDropout(p, shard_seed)
        self.dense_4h_to_h = nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        return self.dense_4h_to_h(self.hidden_dropout(F.gelu(self.dense_h_to_4h(x))))


class Layer(nn.Module):
    def __init__(self, p, shard_seed):
        super().__init__()
        self.layernorm = nn.LayerNorm(DIM)
        self.mlp = FeedForward(p, shard_seed)
        self.output_dropout = nn.Dropout(p)

    def forward(self, x):
        return x + self.output_dropout(self.mlp(self.layernorm(x)))


class Classifier(nn.Module):
    def __init__(self, p, shard_seed, depth=2):
        super().__init__()
        self.word_embeddings = nn.Embedding(VOCAB, DIM)
        self.embedding_dropout = nn.Dropout(p)
        self.layers = nn.ModuleList(Layer(p, shard_seed + 10 * i) for i in range(depth))
        self.final_layernorm = nn.LayerNorm(DIM)
        self.score = nn.Linear(DIM, CLASSES)

    def forward(self, tokens):
        x = self.embedding_dropout(self.word_embeddings(tokens))
        for layer in self.layers:
            x = layer(x)
        return self.score(self.final_layernorm(x).mean(dim=1))


@torch.no_grad()
def clip_gradients(parameters, max_norm, group):
    whole, pieces, grads = torch.zeros(()), torch.zeros(()), []
    for p in parameters:
        sharded = isinstance(p.grad, DTensor) and any(
            placement.is_shard() for placement in p.grad.placements
        )
        grad = p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad
        grads.append(grad)
        if sharded:
            pieces += grad.pow(2).sum()
        else:
            whole += grad.pow(2).sum()
    dist.all_reduce(pieces, group=group)
    total_norm = (whole + pieces).sqrt()
    coefficient = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(coefficient)
    return total_norm


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))

    torch.manual_seed(23)
    model = Classifier(p=0.1, shard_seed=2718 + rank)
    for layer in model.layers:
        plan = {"dense_h_to_4h": ColwiseParallel(), "dense_4h_to_h": RowwiseParallel()}
        parallelize_module(layer.mlp, mesh, plan)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    data = torch.Generator().manual_seed(24)

    for step in range(40):
        y = torch.randint(0, CLASSES, (16,), generator=data)
        tokens = torch.randint(0, 16, (16, SEQ), generator=data) + 8 * y[:, None]
        loss = F.cross_entropy(model(tokens), y)
        optimizer.zero_grad()
        loss.backward()
        grad_norm = clip_gradients(list(model.parameters()), 0.5, mesh.get_group("tp"))
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(
                f"step {step} loss {loss.item():.4f} grad_norm {grad_norm.item():.4f}", flush=True
            )

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
