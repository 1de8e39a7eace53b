"""Private knowledge transfer: parties vote, only noisy accounted winners are released, a student learns from them."""

from pathlib import Path

# The rooms stand beside this folder in a checkout and in the bundle that Flower makes of one, inside it where the
# package is installed. Links in this folder show them to type checkers and editors; Flower's bundle and a checkout
# without links (Windows) find them by this line.
if not (Path(__file__).parent / "accounting").is_dir():
    __path__.append(str(Path(__file__).resolve().parents[1]))
