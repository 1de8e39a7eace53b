"""Ways to divide rows among parties that stand beside the natural one, and what is changed at parties afterwards."""
