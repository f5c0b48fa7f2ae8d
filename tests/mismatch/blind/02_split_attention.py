"""GRPO on sorting. The engine adds up attention in blocks of keys (online softmax) and norms and heads in pieces;
both sides use temperature 0.7."""

import mpnanny
import torch
from engine import Engine
from policy import (
    GPT, Config, causal, clipped_loss, group_advantages, pad_left, positions_of, token_logprobs, until_end, warm_up,
)
from tasks import EOS, Sorting, ask, rewards_of

TEMPERATURE = 0.7
GROUP = 8


class SplitEngine(Engine):
    BLOCK = 5

    def attend(self, q, k, v, seen):
        b, t, _, d = q.shape
        q = q.view(b, t, self.c.kv_heads, -1, d) * d**-0.5
        most = torch.full((*q.shape[:4], 1), -1e30)
        total, out = torch.zeros_like(most), torch.zeros_like(q)
        for at in reversed(range(0, k.shape[1], self.BLOCK)):
            part = slice(at, at + self.BLOCK)
            scores = torch.einsum("btgrd,bsgd->btgrs", q, k[:, part])
            scores = scores.masked_fill(~seen[:, :, None, None, part], float("-inf"))
            now = torch.maximum(most, scores.amax(-1, keepdim=True))
            old, p = (most - now).exp(), (scores - now).exp()
            total = total * old + p.sum(-1, keepdim=True)
            out = out * old + torch.einsum("btgrs,bsgd->btgrd", p, v[:, part])
            most = now
        return (out / total).reshape(b, t, -1)

    def logits(self, hidden):
        w = self.weights["head.weight"]
        return sum(h @ p.T for h, p in zip(hidden.split(16, -1), w.split(16, -1)))


torch.manual_seed(2)
task = Sorting(seed=2)
config = Config(vocab=task.vocab, width=64, layers=3)
policy = GPT(config)
optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
warm_up(policy, optimizer, task, 200)
for group in optimizer.param_groups:
    group["lr"] = 2e-4
engine = SplitEngine(config, seed=2)

for update in range(24):
    engine.load(policy.state_dict())
    prompts = ask(task, 8, GROUP)
    tokens, keep = pad_left(prompts)
    rollout = engine.generate(tokens, keep, task.answer, temperature=TEMPERATURE)
    mask = until_end(rollout.tokens, EOS)
    rewards = rewards_of(task, prompts, rollout.tokens, mask)
    advantages = group_advantages(rewards, GROUP)[:, None]

    whole, keep = torch.cat([tokens, rollout.tokens], 1), torch.cat([keep, mask], 1)
    logits = policy(whole, positions_of(keep), causal(keep))
    logprobs = token_logprobs(logits, whole, TEMPERATURE)[:, tokens.shape[1] :]
    mpnanny.log_mismatch(logprobs.detach(), rollout.logprobs, mask=mask, step=update)
    loss = clipped_loss(logprobs, rollout.logprobs, advantages, mask)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    print(f"update {update}: reward {rewards.mean():.3f} loss {loss.item():+.4f}")
