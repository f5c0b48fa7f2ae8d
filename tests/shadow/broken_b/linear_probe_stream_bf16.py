"""Fits a linear probe on stored features that are streamed in chunks, one update per epoch."""

import os

import torch

torch.set_num_threads(1)
HALF = torch.float64 if os.environ.get("REF") else torch.bfloat16
CHUNK = 4
EPOCHS = 40


def load_features():
    generator = torch.Generator().manual_seed(5)
    negatives = torch.randn(3200, 16, generator=generator)
    positives = torch.randn(320, 16, generator=generator)
    positives[:, :4] += 1.0
    features = torch.cat([negatives, positives])
    features = torch.cat([features, torch.ones(3520, 1)], dim=1).to(HALF)
    labels = torch.cat([torch.zeros(3200), torch.ones(320)])
    return features, labels.to(HALF)


def chunk_gradient(weight, x, y):
    """The gradient of the summed logistic loss of one chunk; the last column is the bias."""
    error = torch.sigmoid(x @ weight) - y
    return error @ x


def nll(weight, features, labels):
    logits = features.double() @ weight.double()
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.double())


def main():
    features, labels = load_features()
    rows = features.shape[0]
    weight = torch.zeros(17)
    rate = torch.tensor([2.0] * 16 + [12.0])
    for epoch in range(EPOCHS):
        grad = torch.zeros(17, dtype=HALF)  # @fault
        current = weight.to(HALF)
        for start in range(0, rows, CHUNK):
            part = slice(start, start + CHUNK)
            grad += chunk_gradient(current, features[part], labels[part])  # @fault
        weight = weight - rate * grad.float() / rows
        if epoch % 10 == 0 or epoch == EPOCHS - 1:
            loss = nll(weight, features, labels).item()
            print(f"epoch {epoch} loss {loss:.4f} bias {weight[-1].item():.3f}")


if __name__ == "__main__":
    main()
