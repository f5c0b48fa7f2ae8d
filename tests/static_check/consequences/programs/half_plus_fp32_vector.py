import torch


def shift(features):
    bias = torch.linspace(0, 1, 16, device="cuda")
    return features.half() * 2 + bias


def main():
    torch.manual_seed(0)
    return shift(torch.randn(64, 16, device="cuda"))


if __name__ == "__main__":
    main()
