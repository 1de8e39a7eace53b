"""Data sets behind one interface (`base.Dataset`): those that ship, those of a folder, the user's own, packages'."""
