"""What the paper left open, one study per question."""
