"""Floor 0: the words and promises every other floor speaks in. No input or output happens here."""
