"""ranks: 2

Mixture of experts with expert parallelism: every rank owns two of the four experts, tokens
travel by all-to-all.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class Exchange(torch.autograd.Function):
    """Rows go to the ranks that own their experts; the gradient goes the way back."""

    @staticmethod
    def forward(ctx, x, send, receive):
        ctx.send, ctx.receive = send, receive
        out = x.new_empty(sum(receive), x.shape[1])
        dist.all_to_all_single(out, x.contiguous(), receive, send)
        return out

    @staticmethod
    def backward(ctx, grad):
        out = grad.new_empty(sum(ctx.send), grad.shape[1])
        dist.all_to_all_single(out, grad.contiguous(), ctx.send, ctx.receive)
        return out, None, None


class ExpertParallelMoE(nn.Module):
    def __init__(self, dim, num_experts=4):
        super().__init__()
        self.world = dist.get_world_size()
        self.num_experts, self.num_local = num_experts, num_experts // self.world
        self.gate = nn.Linear(dim, num_experts, bias=False)
        with torch.random.fork_rng():
            torch.manual_seed(500 + dist.get_rank())
            self.local_experts = nn.ModuleList(
                nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
                for _ in range(self.num_local)
            )
        self.register_buffer("tokens_seen", torch.zeros(num_experts, dtype=torch.int64))

    def forward(self, x):
        probs = torch.softmax(self.gate(x), dim=-1)
        weight, expert = probs.max(dim=-1)
        order = torch.argsort(expert, stable=True)
        counts = torch.bincount(expert, minlength=self.num_experts)

        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts)
        send = counts.view(self.world, -1).sum(1).tolist()
        theirs = theirs.view(self.world, self.num_local)
        receive = theirs.sum(1).tolist()

        rows = Exchange.apply(x[order], send, receive)
        owner = torch.arange(self.num_local).repeat(self.world).repeat_interleave(theirs.flatten())
        done = torch.zeros_like(rows)
        for i, local_expert in enumerate(self.local_experts):
            at = (owner == i).nonzero().squeeze(-1)
            done = done.index_add(0, at, local_expert(rows[at]))
        back = Exchange.apply(done, receive, send)

        if self.training:
            step_counts = counts.clone()
            dist.all_reduce(step_counts)
            self.tokens_seen += step_counts
        return torch.zeros_like(x).index_add(0, order, back) * weight[:, None]


class Model(nn.Module):
    def __init__(self, d_in=10, dim=24, classes=6):
        super().__init__()
        self.stem = nn.Linear(d_in, dim)
        self.norm = nn.LayerNorm(dim)
        self.moe = ExpertParallelMoE(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.moe(self.norm(x))
        return self.head(x)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(90)

    model = Model()
    local_names = [n for n, _ in model.named_parameters() if ".local_experts." in n]
    DDP._set_params_and_buffers_to_ignore_for_model(model, local_names)
    ddp = DDP(model)
    local = [p for n, p in model.named_parameters() if n in local_names]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    centres = torch.randn(6, 10, generator=torch.Generator().manual_seed(91))
    data = torch.Generator().manual_seed(92 + rank)

    for step in range(40):
        y = torch.randint(0, 6, (64,), generator=data)
        x = centres[y] + 0.9 * torch.randn(64, 10, generator=data)
        loss = F.cross_entropy(ddp(x), y)
        optimizer.zero_grad()
        loss.backward()
        for p in local:
            p.grad /= world
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(
                f"step {step} loss {loss.item():.4f} tokens {model.moe.tokens_seen.tolist()}",
                flush=True,
            )

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
