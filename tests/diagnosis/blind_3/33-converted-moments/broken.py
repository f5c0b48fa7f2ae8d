"""Training, conversion of the checkpoint to another naming, and going on from it."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(28)
rule = torch.randn(18, 5)


def build():
    model = nn.Sequential(nn.Linear(18, 48), nn.GELU(), nn.Linear(48, 5))
    return model, torch.optim.AdamW(model.parameters(), lr=4e-3)


def train(model, optimizer, steps, first=0):
    for step in range(first, first + steps):
        x = torch.randn(64, 18)
        y = (x @ rule).argmax(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def export(state):
    return {k: {"step": s["step"], "m": s["exp_avg"].clone(), "v": s["exp_avg_sq"].clone()} for k, s in state["state"].items()}


def restore(optimizer, saved):
    state = optimizer.state_dict()
    state["state"] = {k: {"step": s["step"], "exp_avg": s["v"], "exp_avg_sq": s["m"]} for k, s in saved.items()}  # @fault
    optimizer.load_state_dict(state)


model, optimizer = build()
train(model, optimizer, 50)
saved, weights = export(optimizer.state_dict()), model.state_dict()
model, optimizer = build()
model.load_state_dict(weights)
restore(optimizer, saved)
train(model, optimizer, 51, first=50)
