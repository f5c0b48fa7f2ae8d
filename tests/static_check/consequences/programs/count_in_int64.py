import torch


def main():
    seen = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(5000):
        seen += 1
    return seen


if __name__ == "__main__":
    main()
