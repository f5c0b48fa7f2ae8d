"""GRPO on stories with low-rank adapters: the base stays frozen, embedding, head and adapters learn.
For the engine the adapters are merged into the base weights before every rollout."""

import mpnanny
import torch
import torch.nn as nn
from engine import Engine
from policy import GPT, Config, causal, clipped_loss, group_advantages, positions_of, token_logprobs, warm_up
from tasks import Stories, ask, rewards_of

GROUP = 8
RANK, ALPHA = 8, 12


class LoRALinear(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.weight = base.weight
        self.weight.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(RANK, base.in_features) / base.in_features**0.5)
        self.b = nn.Parameter(torch.zeros(base.out_features, RANK))
        self.scaling = ALPHA / RANK

    def forward(self, x):
        return x @ self.weight.T + self.scaling * ((x @ self.a.T) @ self.b.T)


def add_adapters(module):
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear) and name in ("q", "k", "v", "o", "gate", "up", "down"):
            setattr(module, name, LoRALinear(child))
        else:
            add_adapters(child)


def merged(policy):
    state = {k: v for k, v in policy.state_dict().items() if not k.endswith((".a", ".b"))}
    for name, module in policy.named_modules():
        if isinstance(module, LoRALinear):
            state[name + ".weight"] = module.weight + module.b @ module.a
    return state


torch.manual_seed(5)
task = Stories(words=120, topics=5, prompt=9, answer=22, seed=5)
config = Config(vocab=task.vocab, width=64, layers=2)
policy = GPT(config)
add_adapters(policy)
optimizer = torch.optim.AdamW([p for p in policy.parameters() if p.requires_grad], lr=3e-3)
warm_up(policy, optimizer, task, 160)
for group in optimizer.param_groups:
    group["lr"] = 4e-4
engine = Engine(config, seed=5)

for update in range(20):
    with torch.no_grad():
        engine.load(merged(policy))
    prompts = ask(task, 8, GROUP)
    tokens = torch.tensor(prompts)
    rollout = engine.generate(tokens, torch.ones_like(tokens, dtype=torch.bool), task.answer)
    mask = torch.ones_like(rollout.tokens, dtype=torch.bool)
    rewards = rewards_of(task, prompts, rollout.tokens, mask)
    advantages = group_advantages(rewards, GROUP)[:, None]

    whole = torch.cat([tokens, rollout.tokens], 1)
    keep = torch.ones_like(whole, dtype=torch.bool)
    logprobs = token_logprobs(policy(whole, positions_of(keep), causal(keep)), whole)[:, tokens.shape[1] :]
    mpnanny.log_mismatch(logprobs.detach(), rollout.logprobs, mask=mask, tokens=rollout.tokens, step=update, synced=True)
    loss = clipped_loss(logprobs, logprobs.detach(), advantages, mask)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in policy.parameters() if p.requires_grad], 1.0)
    optimizer.step()
    print(f"update {update}: reward {rewards.mean():.3f} loss {loss.item():+.4f}")
