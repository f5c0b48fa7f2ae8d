"""ranks: 2

Denoising autoencoder under DDP; the optimizer's state is spread over the ranks.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP


class Autoencoder(nn.Module):
    def __init__(self, d=40, hidden=64, code=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, code))
        self.code_norm = nn.LayerNorm(code)
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.GELU(), nn.Linear(hidden, d))

    def forward(self, x):
        return self.decoder(self.code_norm(self.encoder(x)))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(14)

    model = Autoencoder()
    ddp = DDP(model)
    optimizer = ZeroRedundancyOptimizer(ddp.parameters(), optimizer_class=torch.optim.Adam, lr=3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 5))
    basis = torch.randn(6, 40, generator=torch.Generator().manual_seed(15)) / 2
    torch.manual_seed(100 + rank)

    for step in range(60):
        clean = torch.randn(32, 6) @ basis
        noisy = clean + 0.1 * torch.randn_like(clean)
        loss = F.mse_loss(ddp(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % 10 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
