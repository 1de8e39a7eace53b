"""Ways to train a student, one module each, behind one interface (`base.Trainer`)."""
