"""Measuring from the front door: public datasets in, figures out; no dataset comes with the package."""
