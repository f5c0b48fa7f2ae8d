"""GRPO on stories with a mixture of experts. The engine runs in BF16; the trainer (FP32) replays the experts it chose."""

import mpnanny
import torch
from engine import Engine
from policy import GPT, Config, MoE, causal, clipped_loss, group_advantages, positions_of, shift, token_logprobs, warm_up
from tasks import Stories, ask, rewards_of

GROUP = 8

torch.manual_seed(15)
task = Stories(words=140, topics=6, prompt=10, answer=20, seed=15)
config = Config(vocab=task.vocab, width=64, layers=2, inner=64, experts=8, top_k=2, moe_layers=(1,))
policy = GPT(config)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
warm_up(policy, optimizer, task, 100, batch=24)
for group in optimizer.param_groups:
    group["lr"] = 3e-4
engine = Engine(config, dtype=torch.bfloat16, seed=15)
(moe,) = [m for m in policy.modules() if isinstance(m, MoE)]


for update in range(16):
    engine.load(policy.state_dict())
    prompts = ask(task, 6, GROUP)
    tokens = torch.tensor(prompts)
    rollout = engine.generate(tokens, torch.ones_like(tokens, dtype=torch.bool), task.answer)
    rewards = rewards_of(task, prompts, rollout.tokens, torch.ones_like(rollout.tokens, dtype=torch.bool))
    advantages = group_advantages(rewards, GROUP)[:, None]

    whole = torch.cat([tokens, rollout.tokens], 1)
    keep = torch.ones_like(whole, dtype=torch.bool)
    mask = keep.clone()
    mask[:, : tokens.shape[1]] = False
    sampled = torch.zeros(whole.shape)
    sampled[:, tokens.shape[1] :] = rollout.logprobs

    # the last token went through no layer of the engine, and predicts nothing here
    moe.replay = torch.cat([rollout.experts, rollout.experts[:, -1:]], 1)
    logprobs = token_logprobs(policy(whole, positions_of(keep), causal(keep)), whole)
    mpnanny.log_mismatch(
        logprobs.detach(), sampled, mask=mask, positions=positions_of(keep), tokens=whole, step=update, synced=True,
        experts=(shift(moe.chosen), shift(moe.replay)),
    )
    loss = clipped_loss(logprobs, logprobs.detach(), advantages, mask)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    print(f"update {update}: reward {rewards.mean():.3f} loss {loss.item():+.4f}")
