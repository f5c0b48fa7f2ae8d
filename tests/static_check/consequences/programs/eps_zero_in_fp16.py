import torch


def unit(vectors):
    vectors = vectors.half()
    return vectors / (vectors.norm(dim=-1, keepdim=True) + 1e-8)  # <- warning


def main():
    torch.manual_seed(0)
    batch = torch.randn(4, 8, device="cuda")
    batch[2] = 0
    return unit(batch)


if __name__ == "__main__":
    main()
