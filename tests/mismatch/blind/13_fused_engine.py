"""GRPO on sorting. The engine multiplies by one fused matrix for queries, keys and values."""

import mpnanny
import torch
from engine import Engine
from policy import (
    GPT, Config, causal, clipped_loss, group_advantages, pad_left, positions_of, token_logprobs, until_end, warm_up,
)
from tasks import EOS, Sorting, ask, rewards_of

GROUP = 8


class FusedEngine(Engine):
    def __init__(self, config, **how):
        super().__init__(config, **how)
        self.fused = {}

    def qkv(self, x, layer):
        c, (b, t, _) = self.c, x.shape
        if layer not in self.fused:
            at = f"blocks.{layer}.attention."
            self.fused[layer] = torch.cat([self.weights[at + n + ".weight"] for n in "qkv"]).T.contiguous()
        width = c.kv_heads * c.head_dim
        q, k, v = (x @ self.fused[layer]).split([c.heads * c.head_dim, width, width], -1)
        return q.view(b, t, c.heads, -1), k.view(b, t, c.kv_heads, -1), v.view(b, t, c.kv_heads, -1)


torch.manual_seed(13)
task = Sorting(shortest=5, longest=10, seed=13)
config = Config(vocab=task.vocab, width=64, layers=2)
policy = GPT(config)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
warm_up(policy, optimizer, task, 200)
for group in optimizer.param_groups:
    group["lr"] = 4e-4
engine = FusedEngine(config, seed=13)

for update in range(32):
    engine.load(policy.state_dict())
    prompts = ask(task, 8, GROUP)
    tokens, keep = pad_left(prompts)
    rollout = engine.generate(tokens, keep, task.answer)
    mask = until_end(rollout.tokens, EOS)
    rewards = rewards_of(task, prompts, rollout.tokens, mask)
    advantages = group_advantages(rewards, GROUP)[:, None]

    whole, keep = torch.cat([tokens, rollout.tokens], 1), torch.cat([keep, mask], 1)
    answer = slice(tokens.shape[1], None)
    logprobs = token_logprobs(policy(whole, positions_of(keep), causal(keep)), whole)[:, answer]
    mpnanny.log_mismatch(
        logprobs.detach(), rollout.logprobs, mask=mask, tokens=rollout.tokens, step=update, synced=True
    )
    loss = clipped_loss(logprobs, logprobs.detach(), advantages, mask)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    print(f"update {update}: reward {rewards.mean():.3f} loss {loss.item():+.4f}")
