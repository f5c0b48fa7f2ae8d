import math

import torch
from torch import nn
import torch.nn.functional as F


def sequence_log_likelihood(logits, tokens):
    probs = F.softmax(logits, dim=-1)
    picked = probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    likelihood = picked.prod(dim=-1)
    return torch.log(likelihood) / tokens.shape[-1]
