"""What votes cost each node in bytes, seconds and memory, by the size of a federation and how they are collected."""
