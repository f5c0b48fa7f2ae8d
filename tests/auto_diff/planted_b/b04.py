import math

import torch
from torch import nn
import torch.nn.functional as F


def sequence_nll(logits, targets):
    logp = F.log_softmax(logits, dim=-1)
    total = logits.new_zeros(())
    for step in range(targets.shape[0]):
        nll = -logp[step, targets[step]]
        total = total + nll
    return total / targets.shape[0]
