"""What a study measures of a division, of its teachers, of one party's influence, and of who gains."""
