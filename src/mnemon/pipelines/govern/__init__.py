"""Proof, repair and moving house."""
