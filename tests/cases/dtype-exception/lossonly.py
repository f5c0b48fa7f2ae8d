import torch


def list_loss(logits, rows, cols):
    scores = torch.full((24, 8), -1e16)
    scores[rows, cols] = logits
    expo = scores.exp()
    tail = expo.flip(1).cumsum(1).flip(1)
    return ((tail + 1e-10).log() - scores).mean()
