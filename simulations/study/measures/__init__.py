"""What a study measures of a division, of its teachers, and of who gains."""
