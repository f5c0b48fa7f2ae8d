"""GRPO on sums: an FP32 trainer and an engine wholly in BF16, as most engines run."""

import mpnanny
import torch
from engine import Engine
from policy import (
    GPT, Config, causal, clipped_loss, group_advantages, pad_left, positions_of, token_logprobs, until_end, warm_up,
)
from tasks import EOS, Sums, ask, rewards_of

GROUP = 8


torch.manual_seed(7)
task = Sums(digits=3, seed=7)
config = Config(vocab=task.vocab, width=64, layers=3)
policy = GPT(config)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
warm_up(policy, optimizer, task, 200)
for group in optimizer.param_groups:
    group["lr"] = 3e-4
engine = Engine(config, dtype=torch.bfloat16, seed=7)

for update in range(30):
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
        logprobs.detach(), rollout.logprobs, mask=mask, positions=positions_of(keep)[:, answer], tokens=rollout.tokens,
        step=update, synced=True,
    )
    loss = clipped_loss(logprobs, rollout.logprobs, advantages, mask)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    print(f"update {update}: reward {rewards.mean():.3f} loss {loss.item():+.4f}")
