"""Fine-tuning with FSDP2: BF16 compute was asked for, FP32 weights were expected."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))


def pretrained(dtype):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(32, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 8)
    ).to(dtype)


def prepare(net, upcast):
    if upcast:
        net = net.float()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(net, mesh=mesh, mp_policy=policy)


UPCAST = False
net = prepare(pretrained(torch.bfloat16), upcast=UPCAST)
opt = torch.optim.AdamW(net.parameters(), lr=2e-5, weight_decay=0.0, foreach=False)
before = [p.detach().to_local().clone() for p in net.parameters()]
torch.manual_seed(5)
proj = torch.randn(32, 8)
torch.manual_seed(100 + rank)
for step in range(150):
    x = torch.randn(64, 32)
    y = (x @ proj).argmax(1)
    loss = nn.functional.cross_entropy(net(x.bfloat16()).float(), y)
    opt.zero_grad()
    loss.backward()
    opt.step()  # @fault
    if rank == 0 and step % 25 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
same = sum((a == b.to_local()).sum().item() for a, b in zip(before, net.parameters()))
if rank == 0:
    print(
        "unchanged weights",
        same / sum(a.numel() for a in before),
        "dtype",
        next(net.parameters()).dtype,
    )
dist.destroy_process_group()
