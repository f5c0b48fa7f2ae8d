import torch


def attend(q, k, v, mask):
    scores = (q @ k.transpose(-1, -2)).half()
    scores = scores.masked_fill(mask == 0, -1e9)  # <- error
    return torch.softmax(scores, dim=-1) @ v


def main():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 8, device="cuda").half() for _ in range(3))
    mask = torch.tril(torch.ones(4, 4, device="cuda"))
    return attend(q, k, v, mask)


if __name__ == "__main__":
    main()
