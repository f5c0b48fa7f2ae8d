import torch


def causal(length):
    full = torch.full((length, length), -1e9, dtype=torch.float16, device="cuda")  # <- error
    return torch.triu(full, diagonal=1)


def main():
    return causal(8)


if __name__ == "__main__":
    main()
