"""The temporal graph, thought through: what a session says of it, which names are one, what held when."""
