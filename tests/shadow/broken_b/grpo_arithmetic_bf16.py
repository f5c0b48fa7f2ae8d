"""Group-relative policy optimisation on a toy answer task, the policy under BF16 autocast."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(73)
REF = bool(os.environ.get("REF"))
DTYPE = torch.float64 if REF else torch.float32
PROMPTS, GROUP, ANSWERS = 16, 24, 3


class Answerer(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, ANSWERS))

    def forward(self, prompt):
        return self.body(prompt)


def group_advantage(reward):
    centred = reward - reward.mean(dim=1, keepdim=True)
    return centred / reward.std(dim=1, keepdim=True)  # @fault


def sample_answers(log_probs, generator):
    """GROUP answers for every prompt (Gumbel-max)."""
    draws = torch.empty(PROMPTS, GROUP, ANSWERS).exponential_(generator=generator)
    return (log_probs[:, None, :] - draws.log()).argmax(-1)


def main():
    generator = torch.Generator().manual_seed(79)
    key = torch.randn(10, ANSWERS, generator=generator)
    policy = Answerer().to(DTYPE)
    optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)
    for step in range(80):
        prompt = torch.randn(PROMPTS, 10, generator=generator)
        answer = (prompt @ key).argmax(-1)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            logits = policy(prompt.to(DTYPE))
        log_probs = logits.to(DTYPE).log_softmax(-1)
        tried = sample_answers(log_probs.detach(), generator)
        reward = (tried == answer[:, None]).to(log_probs.dtype)
        advantage = group_advantage(reward)
        loss = -(advantage * log_probs.gather(1, tried)).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        if step % 8 == 0 or step == 79:
            print(f"step {step} loss {loss.item():.4f} reward {reward.mean().item():.3f}")


if __name__ == "__main__":
    main()
