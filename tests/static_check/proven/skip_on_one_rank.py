import datetime
import os
import tempfile

import torch
import torch.distributed as dist
from torch.multiprocessing import spawn
from torch.nn.parallel import DistributedDataParallel


def bad_train(model, batches):
    model = DistributedDataParallel(model)
    for x in batches:
        loss = model(x).mean()
        if not torch.isfinite(loss):  # bad: skip-on-one-rank
            continue
        loss.backward()


def good_train(model, batches):
    model = DistributedDataParallel(model)
    for x in batches:
        loss = model(x).mean()
        flag = (~torch.isfinite(loss)).float()
        dist.all_reduce(flag)
        if flag.item() > 0 or torch.isnan(flag).item():
            continue
        loss.backward()


def rank_of(rank, train, file):
    dist.init_process_group(
        "gloo",
        init_method=f"file://{file}",
        rank=rank,
        world_size=2,
        timeout=datetime.timedelta(seconds=60),
    )
    train(torch.nn.Linear(2, 1), [torch.full((1, 2), float("nan") if rank else 1.0)])
    os._exit(0)  # gloo's threads may abort a process that takes them down


def fails(train):
    with tempfile.TemporaryDirectory() as folder:
        try:
            spawn(rank_of, (train, f"{folder}/meeting"), 2)
        except Exception:  # rank 0 waited for one that had left
            return True
    return False
