"""Floor 1: one folder a port, one module a technology. Drivers may use logic; they never import each other."""
