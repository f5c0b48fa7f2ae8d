"""Sequence-level policy optimisation (GSPO-like) of a tiny language model: rollouts in bf16, the update in FP32."""

import copy

import torch
import torch.nn as nn

VOCAB, LENGTH, GROUP = 32, 96, 16


class Policy(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.emb = nn.Embedding(VOCAB + 1, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, VOCAB)

    def forward(self, ids, h=None):
        y, h = self.rnn(self.emb(ids), h)
        return self.out(self.norm(y)), h


def log_probs(model, ids):
    start = torch.full((len(ids), 1), VOCAB)
    logits, _ = model(torch.cat([start, ids[:, :-1]], 1))
    return logits.log_softmax(-1).gather(-1, ids[..., None]).squeeze(-1)


@torch.no_grad()
def rollout(engine, n):
    """What the fast engine does: samples, and gives back the log-probability of each sequence."""
    token, h = torch.full((n, 1), VOCAB), None
    ids, logp = [], torch.zeros(n, dtype=next(engine.parameters()).dtype)
    for _ in range(LENGTH):
        logits, h = engine(token, h)
        lp = logits[:, -1].log_softmax(-1)
        token = torch.multinomial(lp.float().exp(), 1)
        logp += lp.gather(-1, token).squeeze(-1)
        ids.append(token)
    return torch.cat(ids, 1), logp


def reward(ids):
    """Neighbours should ascend by one."""
    return ((ids[:, 1:] - ids[:, :-1]) % VOCAB == 1).float().mean(1)


def main():
    torch.manual_seed(0)
    policy = Policy()
    opt = torch.optim.Adam(policy.parameters(), lr=3e-3)
    for iteration in range(60):
        engine = copy.deepcopy(policy).to(torch.bfloat16).eval()
        ids, old = rollout(engine, 4 * GROUP)
        r = reward(ids)
        adv = (
            (r.view(-1, GROUP) - r.view(-1, GROUP).mean(1, keepdim=True))
            / (r.view(-1, GROUP).std(1, keepdim=True) + 1e-4)
        ).view(-1)
        with torch.no_grad():
            old = log_probs(policy, ids).sum(1)  # by the policy that is trained, not by the engine
        for _ in range(2):
            new = log_probs(policy, ids).sum(1)
            ratio = (new - old).exp()
            clipped = ratio.clamp(0.8, 1.2)
            loss = -torch.min(ratio * adv, clipped * adv).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            opt.step()
        if iteration % 5 == 0:
            print(
                f"iteration {iteration} reward {r.mean().item():.4f} loss {loss.item():.4f} clipped {((ratio - 1).abs() > 0.2).float().mean().item():.2f}"
            )
    print("reward", r.mean().item())


if __name__ == "__main__":
    main()
