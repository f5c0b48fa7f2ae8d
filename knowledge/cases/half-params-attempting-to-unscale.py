"""GradScaler refuses FP16 gradients; with FP32 parameters under autocast it steps."""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = model.weight.detach().float().clone()
    x = torch.ones(2, 4, dtype=dtype)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(x).float().square().mean()
    scaler.scale(loss).backward()
    raised = False
    try:
        scaler.step(optimizer)
        scaler.update()
    except ValueError as error:
        raised = "unscale FP16 gradients" in str(error)
    moved = (model.weight.detach().float() - before).abs().max().item()
    return {
        "parameter_bytes": model.weight.element_size(),
        "raised": raised,
        "moved": moved,
        "failed": raised or moved == 0,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
