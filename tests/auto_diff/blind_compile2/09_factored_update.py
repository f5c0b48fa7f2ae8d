def factored(grad, rows, columns, decay, eps=1e-30):
    square = grad.square() + eps
    rows.lerp_(square.mean(-1), 1 - decay)
    columns.lerp_(square.mean(-2), 1 - decay)
    scale = rows / rows.mean(-1, keepdim=True)
    return grad * scale.unsqueeze(-1).rsqrt() * columns.unsqueeze(-2).rsqrt()


def update(weight, grad, rows, columns, average):
    """Second moments kept as a row and a column; clipped by size, averaged weights."""
    weight, rows, columns, average = weight.clone(), rows.clone(), columns.clone(), average.clone()
    for turn in range(3):
        move = factored(grad, rows, columns, decay=1 - (turn + 2.0) ** -0.8)
        move = move / (move.square().mean().sqrt() / 1.0).clamp(min=1.0)
        size = weight.square().mean().sqrt().clamp(min=1e-3)
        weight.mul_(1 - 1e-3).add_(move * size, alpha=-0.02)
        average.mul_(0.9).add_(weight, alpha=0.1)
        grad = grad * 0.9 + 0.05 * weight
    return weight, rows, columns, average
