"""What is shown, wherever it is shown: exhibits, charts, words, one page."""
