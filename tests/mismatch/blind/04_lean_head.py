"""GRPO on sorting. The engine runs in FP32; its head computes the logits in BF16."""

import mpnanny
import torch
from engine import Engine
from policy import (
    GPT, Config, causal, clipped_loss, group_advantages, pad_left, positions_of, shift, token_logprobs, until_end, warm_up,
)
from tasks import EOS, Sorting, ask, rewards_of

GROUP = 8


class LeanEngine(Engine):
    def load(self, state):
        super().load(state)
        self.weights["head.weight"] = self.weights["head.weight"].bfloat16()

    def logits(self, hidden):
        return (hidden.bfloat16() @ self.weights["head.weight"].T).float()


torch.manual_seed(4)
task = Sorting(shortest=6, longest=11, letters=40, seed=4)
config = Config(vocab=task.vocab, width=80, layers=2)
policy = GPT(config)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
warm_up(policy, optimizer, task, 200)
for group in optimizer.param_groups:
    group["lr"] = 2e-4
engine = LeanEngine(config, seed=4)

for update in range(20):
    engine.load(policy.state_dict())
    prompts = ask(task, 8, GROUP)
    tokens, keep = pad_left(prompts)
    rollout = engine.generate(tokens, keep, task.answer)
    mask = until_end(rollout.tokens, EOS)
    rewards = rewards_of(task, prompts, rollout.tokens, mask)
    advantages = group_advantages(rewards, GROUP)[:, None]

    whole, keep = torch.cat([tokens, rollout.tokens], 1), torch.cat([keep, mask], 1)
    answer = slice(tokens.shape[1], None)
    hidden = policy.hidden(whole, positions_of(keep), causal(keep))
    logprobs = token_logprobs(policy.head(hidden), whole)[:, answer]
    mpnanny.log_mismatch(
        logprobs.detach(), rollout.logprobs, mask=mask, tokens=rollout.tokens, step=update, synced=True,
        hidden=shift(hidden.detach())[:, answer], head=policy.head.weight.detach(),
    )
    loss = clipped_loss(logprobs, rollout.logprobs, advantages, mask)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    print(f"update {update}: reward {rewards.mean():.3f} loss {loss.item():+.4f}")
