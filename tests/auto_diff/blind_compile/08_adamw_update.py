import torch


def update(weight, grad, mean, square):
    lr, decay, eps = 3e-3, 0.01, 1e-8
    first, second = 0.9, 0.95
    square = square.abs() * 1e-2
    for step in range(1, 5):
        norm = torch.linalg.vector_norm(grad)
        grad = grad * (1.0 / (norm + 1e-6)).clamp(max=1.0)
        mean = torch.lerp(grad, mean, first)
        square = square * second + grad * grad * (1 - second)
        rate = lr / (1 - first**step)
        scale = (square / (1 - second**step)).sqrt() + eps
        weight = weight * (1 - lr * decay)
        weight = torch.addcdiv(weight, mean, scale, value=-rate)
        grad = grad * 0.5 + 0.01 * weight
    return weight, mean, square
