"""Drivers of the LLM port."""
