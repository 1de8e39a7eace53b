"""The files of published students: written, read without running anything of them, and asked."""
