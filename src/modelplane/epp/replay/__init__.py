"""Records, replays and explains decisions."""
