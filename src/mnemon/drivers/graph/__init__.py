"""Drivers of the graph port."""
