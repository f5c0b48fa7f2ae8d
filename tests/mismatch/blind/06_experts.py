"""GRPO on stories with a mixture of experts in the two upper of three layers. The engine is FP32 but for its router."""

import mpnanny
import torch
from engine import Engine
from policy import GPT, Config, MoE, causal, clipped_loss, group_advantages, positions_of, shift, token_logprobs, warm_up
from tasks import Stories, ask, rewards_of

GROUP = 8


class ExpertEngine(Engine):
    def route(self, x, layer):
        router = self.weights[f"blocks.{layer}.mlp.router.weight"]
        scores = (x.bfloat16() @ router.bfloat16().T).softmax(-1)
        chosen = scores.topk(self.c.top_k, -1).indices
        share = (x @ router.T).softmax(-1).gather(-1, chosen)
        return chosen, share / share.sum(-1, keepdim=True)


torch.manual_seed(6)
task = Stories(words=140, topics=6, prompt=8, answer=24, seed=6)
config = Config(vocab=task.vocab, width=64, layers=3, inner=48, experts=16, top_k=2, moe_layers=(1, 2))
policy = GPT(config)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
warm_up(policy, optimizer, task, 80, batch=24)
for group in optimizer.param_groups:
    group["lr"] = 3e-4
engine = ExpertEngine(config, seed=6)


def chosen_experts():
    return torch.cat([m.chosen for m in policy.modules() if isinstance(m, MoE)], -1)


for update in range(14):
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

    logprobs = token_logprobs(policy(whole, positions_of(keep), causal(keep)), whole)
    # experts of both layers side by side, those of the second layer numbered from 16; as the log-probs, at the
    # place of the token that they predicted
    layer = torch.arange(2).repeat_interleave(config.top_k) * config.experts
    theirs = torch.cat([rollout.experts, rollout.experts[:, -1:]], 1)
    mpnanny.log_mismatch(
        logprobs.detach(), sampled, mask=mask, positions=positions_of(keep), tokens=whole, step=update, synced=True,
        experts=(shift(chosen_experts() + layer), shift(theirs + layer)),
    )
    loss = clipped_loss(logprobs, logprobs.detach(), advantages, mask)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    print(f"update {update}: reward {rewards.mean():.3f} loss {loss.item():+.4f}")
