import torch


def main():
    torch.manual_seed(0)
    weights = torch.ones(256, 512, dtype=torch.float16, device="cuda")
    errors = torch.rand(256, 512, device="cuda").half()
    return (weights * errors).sum() / weights.sum()  # <- warning


if __name__ == "__main__":
    main()
