"""Models, of teachers and students alike: what they are called, training, files that can be published, predictions."""
