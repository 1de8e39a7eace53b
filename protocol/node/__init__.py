"""What every node on a machine of its own needs: its kit, private files, supervised processes, checks."""
