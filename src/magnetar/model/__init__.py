"""Immutable values: names, positions, policies. Imports nothing but `errors`."""
