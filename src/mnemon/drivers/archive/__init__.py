"""Drivers of the archive port."""
