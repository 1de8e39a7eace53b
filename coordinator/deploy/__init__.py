"""A coordinator on a machine of its own: SuperLink behind a gateway, registered nodes, the run, its state."""
