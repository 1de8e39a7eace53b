"""Where kits of version 0.9 look for the health check: now `node.health`."""
