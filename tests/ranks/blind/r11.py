"""ranks: 2

Two-tower rating model; data parallel by hand, gradients exchanged in buckets from the last
layer to the first.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, count, dim=16, hidden=32):
        super().__init__()
        self.embedding = nn.Embedding(count, dim)
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, ids):
        return self.fc2(F.relu(self.fc1(self.embedding(ids))))


class RatingModel(nn.Module):
    def __init__(self, users=60, items=80):
        super().__init__()
        self.user_tower = Tower(users)
        self.item_tower = Tower(items)
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, users, items):
        x = torch.cat([self.user_tower(users), self.item_tower(items)], dim=-1)
        return self.head(x).squeeze(-1)


def reduce_bucket(bucket):
    flat = torch.cat([g.flatten() for g in bucket])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    at = 0
    for g in bucket:
        g.copy_(flat[at : at + g.numel()].view_as(g))
        at += g.numel()


def reduce_gradients(model, bucket_size=1024):
    bucket, size = [], 0
    for p in reversed(list(model.parameters())):
        if p.grad is None:
            continue
        bucket.append(p.grad)
        size += p.grad.numel()
        if size >= bucket_size:  # @fault
            reduce_bucket(bucket)
            bucket, size = [], 0


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(17)

    model = RatingModel()
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    truth = torch.Generator().manual_seed(18)
    generosity, quality = torch.randn(60, generator=truth), torch.randn(80, generator=truth)
    data = torch.Generator().manual_seed(200 + rank)

    for step in range(50):
        users = torch.randint(0, 60, (64,), generator=data)
        items = torch.randint(0, 80, (64,), generator=data)
        rating = torch.tanh(generosity[users] + quality[items])
        loss = F.mse_loss(model(users, items), rating)
        optimizer.zero_grad()
        loss.backward()
        reduce_gradients(model)
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
