import torch


def main():
    seen = torch.zeros((), dtype=torch.float16, device="cuda")
    for _ in range(5000):
        seen += 1  # <- warning
    return seen


if __name__ == "__main__":
    main()
