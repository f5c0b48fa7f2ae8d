"""The life of a training step: when it begins, what it holds, what ends it, and who hears of it."""
