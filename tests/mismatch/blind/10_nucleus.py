"""GRPO on stories. The engine samples from the nucleus (top-p 0.95) and returns the log-probs of what it sampled from."""

import mpnanny
import torch
from engine import Engine
from policy import GPT, Config, causal, clipped_loss, group_advantages, positions_of, token_logprobs, warm_up
from tasks import Stories, ask, rewards_of

GROUP = 8
TOP_P = 0.95


class NucleusEngine(Engine):
    def sample(self, logits, temperature):
        probs, order = (logits / temperature).softmax(-1).sort(-1, descending=True)
        probs = probs.masked_fill(probs.cumsum(-1) - probs >= TOP_P, 0.0)
        probs = probs / probs.sum(-1, keepdim=True)
        pick = torch.multinomial(probs, 1, generator=self.generator)
        return order.gather(-1, pick)[:, 0], probs.gather(-1, pick)[:, 0].log()


torch.manual_seed(10)
task = Stories(words=150, topics=6, prompt=8, answer=24, seed=10)
config = Config(vocab=task.vocab, width=64, layers=2)
policy = GPT(config)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
warm_up(policy, optimizer, task, 140)
for group in optimizer.param_groups:
    group["lr"] = 3e-4
engine = NucleusEngine(config, seed=10)

for update in range(20):
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
    mpnanny.log_mismatch(logprobs.detach(), rollout.logprobs, mask, step=update)
    loss = clipped_loss(logprobs, rollout.logprobs, advantages, mask)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    print(f"update {update}: reward {rewards.mean():.3f} loss {loss.item():+.4f}")
