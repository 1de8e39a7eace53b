"""Engines: where the same ServerApp and ClientApp run."""
