"""An optimizer holds the parameters that it was given. Where new Parameter objects take their
place afterwards, it steps on the old ones and the model never changes.
"""

import torch

Numbers = dict[str, float | bool]


def replace_parameters(model: torch.nn.Module) -> None:
    """What loaders do that put new Parameter objects of another dtype into a module."""
    for name, parameter in list(model.named_parameters(recurse=False)):
        setattr(model, name, torch.nn.Parameter(parameter.detach().bfloat16().float()))


def run(optimizer_last: bool) -> Numbers:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = None if optimizer_last else torch.optim.SGD(model.parameters(), lr=0.1)
    replace_parameters(model)
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    start = model.weight.detach().clone()
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
    moved = (model.weight.detach() - start).abs().max().item()
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return {
        "parameters_of_model_in_optimizer": sum(id(p) in held for p in model.parameters()),
        "moved": moved,
        "failed": moved == 0.0,
    }


def broken() -> Numbers:
    return run(optimizer_last=False)


def fixed() -> Numbers:
    return run(optimizer_last=True)
