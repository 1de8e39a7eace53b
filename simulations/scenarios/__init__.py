"""Scenario files (.toml) that come with the package."""
