"""Drivers of the queue port."""
