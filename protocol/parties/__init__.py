"""Between coordinator and parties: messages, their records on Flower's wire, and refusals."""
