"""How the replicas are kept up."""
