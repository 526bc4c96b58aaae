"""Floor 3: the only place where drivers meet pipelines."""
