"""What every room may use: alerts, notes, names, lines on stderr, figures that are on their way."""
