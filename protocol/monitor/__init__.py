"""What a node tells those who keep it running: its log, metrics, and whether it does its work. It only reads."""
