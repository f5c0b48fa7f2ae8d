"""ranks: 2

Small convolutional classifier on synthetic pictures, DDP with a compressed gradient exchange.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP


class ConvBlock(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, c_out)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class SmallConvNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.stem = ConvBlock(3, 16)
        self.stage1 = ConvBlock(16, 32)
        self.stage2 = ConvBlock(32, 32)
        self.classifier = nn.Linear(32, classes)

    def forward(self, x):
        x = self.stage2(self.stage1(self.stem(x)))
        return self.classifier(x.mean(dim=(2, 3)))


def batches(rank, steps, batch_size=16):
    prototypes = torch.randn(10, 3, 16, 16, generator=torch.Generator().manual_seed(7))
    g = torch.Generator().manual_seed(100 + rank)
    for _ in range(steps):
        y = torch.randint(0, 10, (batch_size,), generator=g)
        x = prototypes[y] + 0.7 * torch.randn(batch_size, 3, 16, 16, generator=g)
        yield x, y


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)

    model = SmallConvNet()
    ddp = DDP(model)
    ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    for step, (x, y) in enumerate(batches(rank, 40)):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(ddp(x), y)
        loss.backward()
        grad_norm = torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(
                f"step {step} loss {loss.item():.4f} grad_norm {grad_norm.item():.3f}", flush=True
            )

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
