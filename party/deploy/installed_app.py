"""`flwr-clientapp` as a party runs it: always the installed party code, see `node.installed_app`."""

from __future__ import annotations

from consilium.node.installed_app import serve
from consilium.party.client_app import app

MODULE = "consilium.party.deploy.installed_app"


def main() -> None:
    """Entry point."""
    serve(app)


if __name__ == "__main__":
    main()
