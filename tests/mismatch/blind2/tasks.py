"""Tasks: pairs of prompt and answer for a warm start, and a reward for an answer."""

import random

import torch

PAD, START, END = 0, 1, 2


class Walks:
    """Steps along the roads of a random map. The prompt names a colour and the first places; a
    walk earns for steps on roads and for places of that colour."""

    def __init__(self, places=200, roads=9, colours=4, prompt=(5, 5), steps=20, ends=0.0, seed=0):
        self.r = random.Random(seed)
        self.places, self.colours = places, colours
        self.prompt, self.steps, self.ends = prompt, steps, ends
        self.first = 3 + colours
        self.vocab = self.first + places
        self.roads = [self.r.sample(range(places), roads) for _ in range(places)]
        self.weights = [1 / (1 + i) for i in range(roads)]
        self.colour = [self.r.randrange(colours) for _ in range(places)]

    def walk(self, colour, length):
        at = self.r.randrange(self.places)
        path = [at]
        while len(path) < length:
            ways = self.roads[at]
            liked = [
                w * (3 if self.colour[p] == colour else 1)
                for w, p in zip(self.weights, ways, strict=True)
            ]
            at = (
                self.r.choices(ways, liked)[0]
                if self.r.random() > 0.05
                else self.r.randrange(self.places)
            )
            path.append(at)
        return [self.first + p for p in path]

    def pairs(self, n):
        out = []
        for _ in range(n):
            colour, given = self.r.randrange(self.colours), self.r.randint(*self.prompt)
            path = self.walk(colour, given + self.steps)
            answer = path[given:]
            if self.ends:
                stop = next((i for i in range(4, self.steps) if self.r.random() < self.ends), None)
                answer = answer[:stop] + [END] if stop else answer
            out.append(([START, 3 + colour] + path[:given], answer))
        return out

    def reward(self, prompt, answer):
        colour, at, good = prompt[1] - 3, prompt[-1] - self.first, 0.0
        places = [t - self.first for t in answer if t >= self.first]
        for p in places:
            good += (p in self.roads[at]) + (self.colour[p] == colour)
            at = p
        return good / (2 * max(1, len(places)))


class Brackets:
    """Open brackets of several kinds, some closed already; the answer closes the others, the
    last one first."""

    def __init__(self, kinds=8, length=(8, 18), seed=0):
        self.r = random.Random(seed)
        self.kinds, self.length, self.steps = kinds, length, 10
        self.vocab = 3 + 2 * kinds

    def pairs(self, n):
        out = []
        while len(out) < n:
            text, stack = [], []
            for _ in range(self.r.randint(*self.length)):
                if stack and (len(stack) == 9 or self.r.random() < 0.35):
                    text.append(3 + self.kinds + stack.pop())
                else:
                    stack.append(self.r.randrange(self.kinds))
                    text.append(3 + stack[-1])
            if stack:
                out.append(([START] + text, [3 + self.kinds + k for k in reversed(stack)] + [END]))
        return out

    def reward(self, prompt, answer):
        stack = []
        for t in prompt[1:]:
            if t < 3 + self.kinds:
                stack.append(t)
            else:
                stack.pop()
        right = [t + self.kinds for t in reversed(stack)] + [END]
        return sum(x == y for x, y in zip(answer, right, strict=False)) / max(
            len(right), len(answer)
        )


class Mirror:
    """A key and some letters; the answer is the letters backwards, each moved on by the key."""

    def __init__(self, letters=20, keys=3, length=(5, 9), seed=0):
        self.r = random.Random(seed)
        self.letters, self.keys, self.length, self.steps = letters, keys, length, length[1] + 1
        self.first = 4 + keys
        self.vocab = self.first + letters

    def right(self, prompt):
        key, text = prompt[1] - 4, [t - self.first for t in prompt[2:-1]]
        return [self.first + (x + key) % self.letters for x in reversed(text)] + [END]

    def pairs(self, n):
        out = []
        for _ in range(n):
            text = [
                self.first + self.r.randrange(self.letters)
                for _ in range(self.r.randint(*self.length))
            ]
            prompt = [START, 4 + self.r.randrange(self.keys)] + text + [3]
            out.append((prompt, self.right(prompt)))
        return out

    def reward(self, prompt, answer):
        right = self.right(prompt)
        return sum(x == y for x, y in zip(answer, right, strict=False)) / len(right)


def asked(task, prompts, group):
    return [p for p, _ in task.pairs(prompts) for _ in range(group)]


def earned(task, prompts, tokens, counts):
    """tokens, counts: [batch, steps]"""
    pairs = zip(prompts, tokens, counts, strict=True)
    return torch.tensor([task.reward(p, t[c].tolist()) for p, t, c in pairs])
