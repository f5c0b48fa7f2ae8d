import math

import torch
from torch import nn
import torch.nn.functional as F


def pooled_attention(query, keys, values, mask):
    scores = torch.einsum("bd,bld->bl", query, keys) * keys.shape[-1] ** -0.5
    padding = 1.0 - mask.to(scores.dtype)
    bias = padding * -1e9
    weights = torch.softmax(scores + bias, dim=-1)
    return torch.einsum("bl,bld->bd", weights, values)
