"""Ledgers: append-only, fenced by term, shaped so that Apache BookKeeper could stand behind the same contract."""
