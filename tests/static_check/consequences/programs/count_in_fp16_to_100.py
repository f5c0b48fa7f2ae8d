import torch


def main():
    seen = torch.zeros((), dtype=torch.float16, device="cuda")
    for _ in range(100):
        seen += 1
    return seen


if __name__ == "__main__":
    main()
