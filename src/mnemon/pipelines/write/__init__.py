"""How a conversation gets in."""
