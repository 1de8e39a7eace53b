"""A node on its own machine: its folder, keys, the signed folder that it joins, policy, checks and start."""
