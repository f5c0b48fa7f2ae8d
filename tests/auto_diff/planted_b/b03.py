import math

import torch
from torch import nn
import torch.nn.functional as F


def attention(q, k, v):
    scores = torch.matmul(q, k.transpose(-1, -2))
    scores = scores / math.sqrt(q.shape[-1])
    keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    scores = scores.masked_fill(~keep, float("-inf"))
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, v)
