"""`python -m consilium`: the command line."""

import os
import sys

if __name__ == "__main__":
    # as for the command `consilium`, nothing that lies in the working folder is imported
    if not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]

    from consilium.cli import main

    main()
