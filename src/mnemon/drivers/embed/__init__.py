"""Drivers of the embed port."""
