import math

import torch
from torch import nn
import torch.nn.functional as F


def attention(q, k, v, mask):
    q = q * q.shape[-1] ** -0.5
    scores = torch.matmul(q, k.transpose(-1, -2))
    scores = scores.masked_fill(~mask[:, None, :], torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores.float(), dim=-1).to(v.dtype)
    return torch.matmul(weights, v)
