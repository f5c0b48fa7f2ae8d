import torch


def main():
    torch.manual_seed(0)
    scores = torch.randn(2, 4, device="cuda", dtype=torch.float16)
    padding = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]], device="cuda", dtype=torch.float16)
    scores = scores.float() + padding.float() * -1e4
    return torch.softmax(scores, dim=-1)


if __name__ == "__main__":
    main()
