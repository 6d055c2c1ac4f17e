"""Versioned records in a tree: the contract, what is built on it, and its backends."""
