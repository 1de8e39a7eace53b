"""The Python API: `Council` with the conventions of scikit-learn, `simulate`, and `Run`, what one of them leaves."""
