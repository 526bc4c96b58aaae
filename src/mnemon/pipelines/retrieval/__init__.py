"""Asking memory a question: named strategies over the same ports, each explaining what it found and how."""
