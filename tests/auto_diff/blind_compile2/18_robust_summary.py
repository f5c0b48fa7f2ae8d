import torch


def centre(x):
    middle = x.median(-1, keepdim=True).values
    spread = (x - middle).abs().median(-1, keepdim=True).values
    return (x - middle) / (1.4826 * spread + 1e-3)


def trimmed(x, part: float = 0.1):
    cut = int(x.shape[-1] * part)
    return torch.sort(x, dim=-1).values[..., cut : x.shape[-1] - cut].mean(-1)


def soft_top(x, heat: float = 4.0):
    return torch.logsumexp(heat * x, -1) / heat


def summary(x, weight):
    """Robust figures of each row, a weighted mean and a scatter matrix."""
    scaled = centre(x)
    influence = scaled / scaled.abs().clamp(min=1.5) * 1.5
    share = torch.softmax(weight, -1)
    mean = (share * x).sum(-1)
    rest = (x - mean.unsqueeze(-1)) * share.sqrt()
    scatter = rest @ rest.t()
    running = torch.cumsum(influence, -1) / torch.arange(1, x.shape[-1] + 1)
    return trimmed(x), soft_top(scaled), mean, scatter, running, x.var(-1), x.amax(-1) - x.amin(-1)
