"""Transactions as pure state: what a coordinator knows, what a topic hides, what a subscription
withholds.
"""
