"""Students of images, behind the interface of all trainers."""
