"""`flwr-clientapp` as a second aggregator runs it: its own installed code, see `node.installed_app`."""

from __future__ import annotations

from consilium.aggregator.client_app import app
from consilium.node.installed_app import serve

MODULE = "consilium.aggregator.deploy.installed_app"


def main() -> None:
    """Entry point."""
    serve(app)


if __name__ == "__main__":
    main()
