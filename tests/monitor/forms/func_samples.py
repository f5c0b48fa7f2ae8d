"""Gradients of single samples (vmap of grad), clipped and averaged: differentially private SGD."""

import torch
from common import Net, batch, say_loss, say_weights
from torch.func import functional_call, grad_and_value, vmap

torch.manual_seed(0)
model = Net()
weights = {name: p.detach().clone() for name, p in model.named_parameters()}


def loss_of_one(weights, x, y):
    return (functional_call(model, weights, (x.unsqueeze(0),)) - y).pow(2).mean()


of_all = vmap(grad_and_value(loss_of_one), in_dims=(None, 0, 0))
for step in range(6):
    x, y = batch(step)
    gradients, losses = of_all(weights, x, y)
    say_loss(losses.mean())
    squares = sum(g.flatten(1).pow(2).sum(1) for g in gradients.values())
    factor = (1.0 / squares.sqrt()).clamp(max=1.0)
    for name, each in gradients.items():
        clipped = (each.flatten(1) * factor[:, None]).mean(0).view_as(weights[name])
        weights[name] = weights[name] - 0.1 * clipped
say_weights(weights.values())
