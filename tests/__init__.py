"""Tests: see README.md. A package, since others on the index install one of this name too."""
