"""What people get: alerts, lines on stderr, the summary, dumped tensors, and how names are kept."""
