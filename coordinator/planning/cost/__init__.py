"""What a federation costs each of its nodes, in bytes, seconds and memory, by its size and the way votes are collected."""
