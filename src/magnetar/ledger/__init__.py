"""Ledgers: append-only, fenced by term; Apache BookKeeper could stand behind the same contract."""
