"""Language models of others, each through its vendor's own library."""
