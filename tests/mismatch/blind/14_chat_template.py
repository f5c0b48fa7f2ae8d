"""GRPO on sums. The trainer renders question and answer again by the chat template before it tokenises them."""

import mpnanny
import torch
from engine import Engine
from policy import (
    GPT, Config, causal, clipped_loss, group_advantages, pad_left, positions_of, token_logprobs, until_end, warm_up,
)
from tasks import EOS, Sums, ask, rewards_of

GROUP = 8


def rendered(prompt, answer):
    """Question and answer as the trainer sees them; special tokens are no part of the text."""
    question = [t for t in prompt if t > EOS]
    return question + answer


torch.manual_seed(14)
task = Sums(digits=3, seed=14)
config = Config(vocab=task.vocab, width=64, layers=2)
policy = GPT(config)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
warm_up(policy, optimizer, task, 220)
for group in optimizer.param_groups:
    group["lr"] = 3e-4
engine = Engine(config, seed=14)

for update in range(28):
    engine.load(policy.state_dict())
    prompts = ask(task, 8, GROUP)
    tokens, keep = pad_left(prompts)
    rollout = engine.generate(tokens, keep, task.answer)
    mask = until_end(rollout.tokens, EOS)
    rewards = rewards_of(task, prompts, rollout.tokens, mask)
    advantages = group_advantages(rewards, GROUP)[:, None]

    answers = [a.tolist() for a in rollout.tokens]
    whole, keep = pad_left([rendered(p, a) for p, a in zip(prompts, answers)])
    logprobs = token_logprobs(policy(whole, positions_of(keep), causal(keep)), whole)[:, -task.answer :]
    mpnanny.log_mismatch(logprobs.detach(), rollout.logprobs, mask=mask, step=update, synced=True)
    loss = clipped_loss(logprobs, logprobs.detach(), advantages, mask)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    print(f"update {update}: reward {rewards.mean():.3f} loss {loss.item():+.4f}")
