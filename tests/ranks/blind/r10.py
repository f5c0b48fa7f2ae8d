"""ranks: 2

Residual network with batch norm, every rank keeps its own running statistics; the data set does
not divide evenly.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Subset, TensorDataset


class BasicBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.bn2(self.conv2(y)))


class TinyResNet(nn.Module):
    def __init__(self, classes=8):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = BasicBlock(16)
        self.layer2 = BasicBlock(16)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x)))))
        return self.fc(x.mean(dim=(2, 3)))


def make_dataset(n=117):
    g = torch.Generator().manual_seed(12)
    prototypes = torch.randn(8, 3, 12, 12, generator=g)
    y = torch.randint(0, 8, (n,), generator=g)
    return TensorDataset(prototypes[y] + 0.8 * torch.randn(n, 3, 12, 12, generator=g), y)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(40)

    model = TinyResNet()
    ddp = DDP(model, broadcast_buffers=False)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    dataset = make_dataset()
    mine = Subset(dataset, list(range(rank, len(dataset), world)))
    loader = DataLoader(
        mine, batch_size=14, shuffle=True, generator=torch.Generator().manual_seed(rank)
    )

    step = 0
    for epoch in range(8):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(ddp(x), y)
            loss.backward()
            optimizer.step()
            if step % 10 == 0 and rank == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
            step += 1

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
