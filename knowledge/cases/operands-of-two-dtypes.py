"""A product of an FP16 activation with FP32 weights raises; cast to one dtype, or under autocast,
it runs.
"""

import torch

Numbers = dict[str, float | bool]


def run(same: bool) -> Numbers:
    layer = torch.nn.Linear(4, 2)
    x = torch.ones(1, 4, dtype=torch.float16)
    raised = False
    try:
        layer(x.to(layer.weight.dtype) if same else x)
    except RuntimeError as error:
        raised = "dtype" in str(error)
    return {
        "bytes_of_activation": x.element_size(),
        "bytes_of_weight": layer.weight.element_size(),
        "failed": raised,
    }


def broken() -> Numbers:
    return run(same=False)


def fixed() -> Numbers:
    return run(same=True)
