"""Entries of the Memory Service: written into a log that never forgets by itself, found through the index."""
