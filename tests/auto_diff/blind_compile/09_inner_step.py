import torch
from torch.nn import functional


class Snap(torch.autograd.Function):
    @staticmethod
    def forward(x, step):
        return torch.round(x / step) * step

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.step = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def inner_loss(weight, bias, x, y):
    hidden = torch.tanh(x @ Snap.apply(weight, 0.125))
    guess = hidden.mean(-1, keepdim=True) + bias
    return functional.mse_loss(guess, y)


def adapt(x, y, weight, bias):
    slope = torch.func.grad(inner_loss, argnums=(0, 1))
    for _ in range(3):
        dw, db = slope(weight, bias, x, y)
        weight = weight - 2.0 * dw
        bias = bias - 0.1 * db
    return weight, bias, inner_loss(weight, bias, x, y)
