"""Toy tasks: pairs of prompt and answer for the cold start, and a reward for what was sampled."""

import random

import torch

PAD, BOS, EOS = 0, 1, 2


class Stories:
    """Words follow each other by a table and by the topic that the prompt begins with. Reward: share of words that fit the topic."""

    def __init__(self, words=240, topics=6, prompt=10, answer=32, seed=0, end=0.0):
        g = torch.Generator().manual_seed(seed)
        self.first_topic, self.first_word = 3, 3 + topics
        self.topics, self.words, self.prompt, self.answer, self.end = topics, words, prompt, answer, end
        self.vocab = self.first_word + words
        self.table = 1.8 * torch.randn(words, words, generator=g) - torch.arange(1, words + 1).log()
        self.topic = 1.8 * torch.randn(topics, words, generator=g)
        self.good = self.topic > self.topic.quantile(0.7, 1, keepdim=True)
        self.random = torch.Generator().manual_seed(seed + 1)

    def examples(self, n, prompt=None):
        prompts = [prompt or self.prompt] * n if not isinstance(prompt, list) else prompt
        topic = torch.randint(self.topics, (n,), generator=self.random)
        word = torch.randint(self.words, (n,), generator=self.random)
        words = [word]
        for _ in range(max(prompts) + self.answer):
            p = (self.table[word] + self.topic[topic]).softmax(-1)
            word = torch.multinomial(p, 1, generator=self.random)[:, 0]
            words.append(word)
        words = torch.stack(words, 1) + self.first_word
        pairs = []
        for i, length in enumerate(prompts):
            row = words[i].tolist()
            body = row[length - 2 :][: self.answer]
            if self.end:
                stop = 1 + int(torch.empty(1).geometric_(self.end, generator=self.random))
                body = body[:stop] + [EOS] if stop < len(body) else body
            pairs.append(([BOS, self.first_topic + int(topic[i])] + row[: length - 2], body))
        return pairs

    def reward(self, prompt, answer):
        words = [w - self.first_word for w in answer if w >= self.first_word]
        if not words:
            return 0.0
        good = self.good[prompt[1] - self.first_topic]
        return sum(bool(good[w]) for w in words) / len(words) + 0.3 * len(set(words)) / len(words)


class Sums:
    """BOS 4 7 + 3 1 = -> 7 8 EOS. Reward: share of right digits, and 1 more if all are."""

    PLUS, EQUALS, DIGIT = 3, 4, 5

    def __init__(self, digits=2, seed=0):
        self.vocab, self.answer, self.most = 16, digits + 2, 10**digits - 1
        self.random = random.Random(seed)

    def number(self, n):
        return [self.DIGIT + int(d) for d in str(n)]

    def examples(self, n):
        pairs = []
        for _ in range(n):
            a, b = self.random.randint(0, self.most), self.random.randint(0, self.most)
            prompt = [BOS] + self.number(a) + [self.PLUS] + self.number(b) + [self.EQUALS]
            pairs.append((prompt, self.number(a + b) + [EOS]))
        return pairs

    def reward(self, prompt, answer):
        plus = prompt.index(self.PLUS)
        a, b = (int("".join(str(t - self.DIGIT) for t in part)) for part in (prompt[1:plus], prompt[plus + 1 : -1]))
        right = self.number(a + b) + [EOS]
        share = sum(x == y for x, y in zip(answer, right)) / len(right)
        return share + (answer == right)


class Sorting:
    """BOS c a d b SEP -> a b c d EOS. Reward: share of letters at their place."""

    SEP, LETTER = 3, 4

    def __init__(self, shortest=6, longest=12, letters=26, seed=0):
        self.vocab, self.answer = self.LETTER + letters, longest + 1
        self.shortest, self.longest, self.letters = shortest, longest, letters
        self.random = random.Random(seed)

    def examples(self, n):
        pairs = []
        for _ in range(n):
            count = self.random.randint(self.shortest, self.longest)
            word = [self.LETTER + self.random.randrange(self.letters) for _ in range(count)]
            pairs.append(([BOS] + word + [self.SEP], sorted(word) + [EOS]))
        return pairs

    def reward(self, prompt, answer):
        right = sorted(prompt[1:-1]) + [EOS]
        return sum(x == y for x, y in zip(answer, right)) / len(right)


def ask(task, prompts, group):
    """`prompts` new prompts, each `group` times in a row"""
    return [p for p, _ in task.examples(prompts) for _ in range(group)]


def rewards_of(task, prompts, answers, mask):
    rows = [a[m].tolist() for a, m in zip(answers, mask)]
    return torch.tensor([task.reward(p, r) for p, r in zip(prompts, rows)])
