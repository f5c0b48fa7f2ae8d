"""Policy gradient with an entropy bonus in a small grid world where some moves are not allowed."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)

DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
SIZE = 9
MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2 * SIZE, 48), nn.Tanh())
        self.actor = nn.Linear(48, 4)
        self.critic = nn.Linear(48, 1)

    def forward(self, position):
        onehot = nn.functional.one_hot(position, SIZE).flatten(1).to(DTYPE)
        hidden = self.body(onehot)
        return self.actor(hidden), self.critic(hidden).squeeze(-1)


def allowed_moves(position):
    target = position[:, None] + MOVES
    return ((target >= 0) & (target < SIZE)).all(dim=-1)


def rollout(model, generator, length=10, agents=24):
    # Episodes start in the middle of the grid.
    position = torch.full((agents, 2), SIZE // 2)
    log_probs, values, entropies, rewards = [], [], [], []
    for _ in range(length):
        logits, value = model(position)
        logits = logits.masked_fill(~allowed_moves(position), float("-inf"))
        probs = torch.softmax(logits, dim=-1)
        action = torch.multinomial(probs.detach().float(), 1, generator=generator).squeeze(1)
        entropy = -(probs * torch.log(probs)).sum(dim=-1)  # @fault
        log_probs.append(probs.gather(1, action[:, None]).squeeze(1).log())
        position = position + MOVES[action]
        rewards.append((position == SIZE - 1).all(dim=1).to(DTYPE))
        values.append(value)
        entropies.append(entropy)
    return map(torch.stack, (log_probs, values, entropies, rewards))


def main():
    generator = torch.Generator().manual_seed(5)
    model = Policy().to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(40):
        log_probs, values, entropies, rewards = rollout(model, generator, length=4 + step // 2)
        returns = rewards.flip(0).cumsum(0).flip(0)
        advantage = (returns - values).detach()
        policy_loss = -(log_probs * advantage).mean()
        value_loss = (returns - values).pow(2).mean()
        loss = policy_loss + 0.5 * value_loss - 0.01 * entropies.mean()
        if not torch.isfinite(loss):
            print(f"step {step:3d} loss {loss.item()} entropy {entropies.mean().item()}")
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:3d} loss {loss.item():.4f} reward {rewards.sum(0).mean():.3f}")


if __name__ == "__main__":
    main()
