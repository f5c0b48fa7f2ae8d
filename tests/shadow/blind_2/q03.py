"""Preference optimisation (IPO) of a small language model against a frozen copy of itself."""

import copy
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(3)

DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16
VOCAB, LENGTH, BETA, STEPS = 64, 320, 0.1, 70


class TinyLM(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.token = nn.Embedding(VOCAB, width)
        self.mix = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, ids):
        x = self.token(ids)
        previous = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
        hidden = torch.tanh(self.mix(torch.cat([x, previous], dim=-1)))
        return self.head(hidden)


def sequence_logps(logits, ids):
    logps = torch.log_softmax(logits[:, :-1], dim=-1)
    token_logps = logps.gather(-1, ids[:, 1:, None]).squeeze(-1)
    return token_logps.sum(-1)  # @fault


def ipo_loss(policy_chosen, policy_rejected, ref_chosen, ref_rejected):
    margin = (policy_chosen - policy_rejected) - (ref_chosen - ref_rejected)  # @fault
    return ((margin - 1.0 / (2.0 * BETA)) ** 2).mean(), margin


def preference_pairs(n):
    ids = torch.randint(VOCAB, (n, LENGTH))
    chosen, rejected = ids.clone(), ids.clone()
    start = LENGTH - 24
    chosen[:, start::2] = torch.randint(VOCAB // 2, (n, 12))
    rejected[:, start::2] = torch.randint(VOCAB // 2, VOCAB, (n, 12))
    return chosen, rejected


def main():
    policy = TinyLM()
    reference = copy.deepcopy(policy).requires_grad_(False)
    optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=DTYPE is torch.bfloat16)

    for step in range(STEPS):
        chosen, rejected = preference_pairs(8)
        both = torch.cat([chosen, rejected])
        with autocast:
            policy_logits = policy(both)
            with torch.no_grad():
                reference_logits = reference(both)
        policy_logps = sequence_logps(policy_logits, both)
        reference_logps = sequence_logps(reference_logits, both)
        loss, margin = ipo_loss(*policy_logps.chunk(2), *reference_logps.chunk(2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} margin {margin.float().mean().item():.3f}")

    with torch.no_grad():
        chosen, rejected = preference_pairs(64)
        both = torch.cat([chosen, rejected])
        policy_logps = sequence_logps(policy.double()(both), both)
        reference_logps = sequence_logps(reference.double()(both), both)
        loss, margin = ipo_loss(*policy_logps.chunk(2), *reference_logps.chunk(2))
    print(f"held-out loss {loss.item():.4f} margin {margin.mean().item():.3f}")


if __name__ == "__main__":
    main()
