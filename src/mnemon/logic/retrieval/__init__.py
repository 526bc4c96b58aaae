"""Deciding what to look for and what comes first: pure, the same for every index."""
