"""`python -m consilium`: the command line."""

from consilium.cli import main

if __name__ == "__main__":
    main()
