"""Momentum residual network that rebuilds its activations in the backward pass to save memory."""

import os

import torch

torch.set_num_threads(1)
torch.manual_seed(6)
COMPUTE = torch.float64 if os.environ.get("REF") else torch.bfloat16
DEPTH, WIDTH, GAMMA = 18, 24, 0.5


def branch(x, weight):
    return torch.tanh(x @ weight.to(x.dtype))


class MomentumStack(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *weights):
        v = torch.zeros_like(x)
        for weight in weights:
            v = GAMMA * v + (1 - GAMMA) * branch(x, weight)
            x = x + v
        ctx.save_for_backward(x, v, *weights)
        return x

    @staticmethod
    def backward(ctx, grad_x):
        x, v, *weights = ctx.saved_tensors
        grad_v = torch.zeros_like(grad_x)
        grads = []
        for weight in reversed(weights):
            x = x - v  # @fault
            grad_v = grad_v + grad_x
            with torch.enable_grad():
                leaf_x, leaf_w = x.detach().requires_grad_(), weight.detach().requires_grad_()
                f = branch(leaf_x, leaf_w)
                dx, dw = torch.autograd.grad(f, (leaf_x, leaf_w), (1 - GAMMA) * grad_v)
            v = (v - (1 - GAMMA) * f.detach()) / GAMMA  # @fault
            grads.append(dw)
            grad_x = grad_x + dx
            grad_v = GAMMA * grad_v
        return grad_x, *reversed(grads)


def spiral(size, generator):
    label = torch.randint(2, (size,), generator=generator)
    radius = 0.3 + 4.2 * torch.rand(size, generator=generator)
    turn = 2.2 * radius + torch.pi * label
    points = torch.stack([radius * turn.cos(), radius * turn.sin()], 1)
    return points + 0.05 * torch.randn(size, 2, generator=generator), label


lift = torch.nn.Linear(2, WIDTH)
head = torch.nn.Linear(WIDTH, 2)
weights = [torch.nn.Parameter(1.5 * torch.randn(WIDTH, WIDTH) / WIDTH**0.5) for _ in range(DEPTH)]
optimizer = torch.optim.Adam([*lift.parameters(), *head.parameters(), *weights], lr=4e-3)
stream = torch.Generator().manual_seed(9)
tail = []
for step in range(150):
    points, label = spiral(192, stream)
    features = MomentumStack.apply(lift(points).to(COMPUTE), *weights)
    loss = torch.nn.functional.cross_entropy(head(features.float()), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    tail.append(loss.item())
    if step % 15 == 0:
        print(f"step {step:3d} loss {loss.item():.4f}")
print(f"mean loss of the last 20 steps {sum(tail[-20:]) / 20:.4f}")
