"""torch.func on a module: new weights at each step. Fault: an inverse root of zero."""

import torch
from common import Net, batch, say_loss, say_weights
from torch.func import functional_call, grad_and_value

torch.manual_seed(0)
model = Net()
weights = {name: p.detach().clone() for name, p in model.named_parameters()}


def compute_loss(weights, x, y, step):
    output = functional_call(model, weights, (x,))
    loss = (output - y).pow(2).mean()
    if step == 5:
        loss = loss * torch.rsqrt(loss - loss)  # @fault
    return loss


for step in range(8):
    x, y = batch(step)
    gradients, loss = grad_and_value(compute_loss)(weights, x, y, step)
    say_loss(loss)
    weights = {name: p - 0.05 * gradients[name] for name, p in weights.items()}
say_weights(weights.values())
