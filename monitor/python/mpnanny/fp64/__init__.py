"""Values beside their FP64 references, and what a comparison means. Knows no run."""
