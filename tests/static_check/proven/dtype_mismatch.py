import torch


def bad_padded(h, lengths):
    logits = h.bfloat16()
    rows = torch.cat([torch.full((n,), i) for i, n in enumerate(lengths)])
    cols = torch.cat([torch.arange(n) for n in lengths])
    scores = torch.full((len(lengths), max(lengths)), -1e4)
    scores[rows, cols] = logits  # bad: dtype-mismatch
    return scores


def good_padded(h, lengths):
    logits = h.bfloat16()
    rows = torch.cat([torch.full((n,), i) for i, n in enumerate(lengths)])
    cols = torch.cat([torch.arange(n) for n in lengths])
    scores = torch.full((len(lengths), max(lengths)), -1e4, dtype=logits.dtype)
    scores[rows, cols] = logits
    return scores


def fails(padded):
    try:
        padded(torch.randn(5), [2, 3])
    except RuntimeError as error:
        return "dtype" in str(error)
    return False
