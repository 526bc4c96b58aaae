"""Drivers of the index port."""
