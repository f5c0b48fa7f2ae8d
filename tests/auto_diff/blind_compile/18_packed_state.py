import torch


def unpack(high, low, kind):
    return high.to(kind) + low.to(kind)


def pack(weight):
    high = weight.to(torch.bfloat16)
    rest = weight - high.to(weight.dtype)
    low = rest.to(torch.bfloat16)
    return high, low


def step(high, low, x, wanted):
    weight = unpack(high, low, x.dtype)
    velocity = torch.zeros_like(weight)
    for _ in range(4):
        gap = torch.tanh(x @ weight) - wanted
        slope = x.t() @ (gap * (1 - (gap + wanted).square())) / x.shape[0]
        velocity = 0.9 * velocity + slope
        weight = weight - 0.05 * velocity
    loss = gap.square().mean()
    high, low = pack(weight)
    return high, low, loss
