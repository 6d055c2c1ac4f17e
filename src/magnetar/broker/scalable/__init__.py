"""Scalable topics: who controls them, who watches them, who reads which segment."""
