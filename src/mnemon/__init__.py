"""Mnemon: long-term memory for chat agents that can always prove itself."""
