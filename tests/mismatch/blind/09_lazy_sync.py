"""GRPO on stories. Copying the weights is slow, so the engine gets them every fourth update."""

import mpnanny
import torch
from engine import Engine
from policy import GPT, Config, causal, clipped_loss, group_advantages, positions_of, token_logprobs, warm_up
from tasks import Stories, ask, rewards_of

GROUP = 8
SYNC_EVERY = 4


torch.manual_seed(9)
task = Stories(words=150, topics=6, prompt=8, answer=24, seed=9)
config = Config(vocab=task.vocab, width=64, layers=2)
policy = GPT(config)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
warm_up(policy, optimizer, task, 140)
for group in optimizer.param_groups:
    group["lr"] = 4e-4
engine = Engine(config, seed=9)

for update in range(24):
    sync = update % SYNC_EVERY == 0
    if sync:
        engine.load(policy.state_dict())
    prompts = ask(task, 8, GROUP)
    tokens = torch.tensor(prompts)
    rollout = engine.generate(tokens, torch.ones_like(tokens, dtype=torch.bool), task.answer)
    mask = torch.ones_like(rollout.tokens, dtype=torch.bool)
    rewards = rewards_of(task, prompts, rollout.tokens, mask)
    advantages = group_advantages(rewards, GROUP)[:, None]

    whole = torch.cat([tokens, rollout.tokens], 1)
    keep = torch.ones_like(whole, dtype=torch.bool)
    answer = slice(tokens.shape[1], None)
    logprobs = token_logprobs(policy(whole, positions_of(keep), causal(keep)), whole)[:, answer]
    mpnanny.log_mismatch(
        logprobs.detach(), rollout.logprobs, mask=mask, tokens=rollout.tokens, step=update, synced=sync
    )
    loss = clipped_loss(logprobs, logprobs.detach(), advantages, mask)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    print(f"update {update}: reward {rewards.mean():.3f} loss {loss.item():+.4f}")
