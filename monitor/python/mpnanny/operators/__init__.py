"""Dispatch modes: which operator makes a value that is not finite, and in which line."""
