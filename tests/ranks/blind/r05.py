"""ranks: 2

Tabular classifier under DDP in two legs: train, write a checkpoint, build everything anew,
resume.
"""

import os
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class TabularNet(nn.Module):
    def __init__(self, features=20, hidden=64, classes=5):
        super().__init__()
        self.input = nn.Linear(features, hidden)
        self.norm1 = nn.LayerNorm(hidden)
        self.hidden = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.output = nn.Linear(hidden, classes)

    def forward(self, x):
        x = F.relu(self.norm1(self.input(x)))
        x = x + F.relu(self.norm2(self.hidden(x)))
        return self.output(x)


class Trainer:
    def __init__(self, rank, lr=2e-3):
        self.rank = rank
        self.model = TabularNet()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.step = 0

    def wrap(self):
        self.ddp = DDP(self.model)
        return self

    def save(self, path):
        if self.rank == 0:
            state = {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
            }
            torch.save(state, path)
        dist.barrier()

    def load(self, path):
        if self.rank == 0:
            state = torch.load(path)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])  # @fault
            self.step = state["step"]
        step = torch.tensor(self.step)
        dist.broadcast(step, src=0)
        self.step = int(step)
        return self

    def fit(self, until):
        table = torch.randn(5, 20, generator=torch.Generator().manual_seed(2))
        while self.step < until:
            g = torch.Generator().manual_seed(10_000 * self.rank + self.step)
            y = torch.randint(0, 5, (32,), generator=g)
            x = 0.6 * table[y] + torch.randn(32, 20, generator=g)
            loss = F.cross_entropy(self.ddp(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.step % 10 == 0 and self.rank == 0:
                print(f"step {self.step} loss {loss.item():.4f}", flush=True)
            self.step += 1


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(8)

    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    path = os.path.join(folder[0], "last.pt")

    first = Trainer(rank).wrap()
    first.fit(until=20)
    first.save(path)
    del first

    resumed = Trainer(rank).load(path).wrap()
    resumed.fit(until=50)

    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder[0])
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
