"""ranks: 2

Mixture of experts with a bias that balances the load (no auxiliary loss), data parallel by DDP.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class TopKRouter(nn.Module):
    def __init__(self, dim, num_experts, top_k):
        super().__init__()
        self.num_experts, self.top_k = num_experts, top_k
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.register_buffer("expert_bias", torch.zeros(num_experts))
        self.register_buffer("tokens_per_expert", torch.zeros(num_experts, dtype=torch.float64))

    def forward(self, x):
        scores = torch.sigmoid(self.gate(x))
        chosen = torch.topk(scores + self.expert_bias, self.top_k, dim=-1).indices
        weights = scores.gather(-1, chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        if self.training:
            with torch.no_grad():
                self.tokens_per_expert += torch.bincount(
                    chosen.flatten(), minlength=self.num_experts
                )
        return weights, chosen


class MoE(nn.Module):
    def __init__(self, dim, hidden, num_experts, top_k):
        super().__init__()
        self.router = TopKRouter(dim, num_experts, top_k)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))
            for _ in range(num_experts)
        )

    def forward(self, x):
        weights, chosen = self.router(x)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            w = (weights * (chosen == i)).sum(-1, keepdim=True)
            out = out + w * expert(x)
        return out


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.moe = MoE(dim, 2 * dim, num_experts=4, top_k=2)

    def forward(self, x):
        return x + self.moe(self.norm(x))


class Regressor(nn.Module):
    def __init__(self, d_in=12, dim=24):
        super().__init__()
        self.embed = nn.Linear(d_in, dim)
        self.layers = nn.ModuleList(Block(dim) for _ in range(2))
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x).squeeze(-1)


@torch.no_grad()
def update_expert_bias(model, rate=1e-3):
    """Experts that have seen fewer tokens than the mean, over all ranks, become more attractive."""
    for module in model.modules():
        if isinstance(module, TopKRouter):
            dist.all_reduce(module.tokens_per_expert)  # @fault
            tokens = module.tokens_per_expert
            module.expert_bias += rate * torch.sign(tokens.mean() - tokens).float()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)

    model = Regressor()
    ddp = DDP(model, broadcast_buffers=False)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=3e-3)
    data = torch.Generator().manual_seed(50 + rank)
    target = torch.randn(12, generator=torch.Generator().manual_seed(9))

    for step in range(40):
        x = torch.randn(64, 12, generator=data)
        y = torch.tanh(x @ target) + 0.3 * x[:, 0] * x[:, 1]
        loss = F.mse_loss(ddp(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update_expert_bias(model)
        if step % 10 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    if rank == 0:
        for i, layer in enumerate(model.layers):
            share = layer.moe.router.tokens_per_expert / layer.moe.router.tokens_per_expert.sum()
            print(f"layer {i} share of tokens", [round(v, 3) for v in share.tolist()], flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
