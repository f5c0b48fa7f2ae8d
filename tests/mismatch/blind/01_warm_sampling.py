"""GRPO on stories. The engine samples at temperature 0.7 for better answers and hands over the log-probs it sampled with."""

import mpnanny
import torch
from engine import Engine
from policy import GPT, Config, causal, clipped_loss, group_advantages, positions_of, shift, token_logprobs, warm_up
from tasks import Stories, ask, rewards_of

TEMPERATURE = 0.7
GROUP = 8

torch.manual_seed(1)
task = Stories(words=180, prompt=8, answer=24, seed=11)
config = Config(vocab=task.vocab, width=64, layers=2)
policy = GPT(config)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
warm_up(policy, optimizer, task, 120)
for group in optimizer.param_groups:
    group["lr"] = 3e-4
engine = Engine(config, seed=1)

for update in range(20):
    engine.load(policy.state_dict())
    prompts = ask(task, 8, GROUP)
    tokens = torch.tensor(prompts)
    rollout = engine.generate(tokens, torch.ones_like(tokens, dtype=torch.bool), task.answer, temperature=TEMPERATURE)
    rewards = rewards_of(task, prompts, rollout.tokens, torch.ones_like(rollout.tokens, dtype=torch.bool))
    advantages = group_advantages(rewards, GROUP)[:, None]

    whole = torch.cat([tokens, rollout.tokens], 1)
    keep = torch.ones_like(whole, dtype=torch.bool)
    mask = keep.clone()
    mask[:, : tokens.shape[1]] = False
    sampled = torch.zeros(whole.shape)
    sampled[:, tokens.shape[1] :] = rollout.logprobs

    hidden = policy.hidden(whole, positions_of(keep), causal(keep))
    logprobs = token_logprobs(policy.head(hidden), whole)
    mpnanny.log_mismatch(
        logprobs.detach(), sampled, mask=mask, positions=positions_of(keep), tokens=whole, step=update, synced=True,
        hidden=shift(hidden.detach()), head=policy.head.weight.detach(),
    )
    loss = clipped_loss(logprobs, logprobs.detach(), advantages, mask)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    print(f"update {update}: reward {rewards.mean():.3f} loss {loss.item():+.4f}")
