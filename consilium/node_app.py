"""The one ClientApp where nodes of both kinds run: what a node is, party or second aggregator, its home says.

A kit's node runs the app of its own kind alone.
"""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from consilium.aggregator import SETTINGS
from consilium.node.answering import home_folder
from consilium.party import client_app as party
from consilium.protocol.errors import ConfigError


class NodeApp(ClientApp):
    """Hands each message to the app of the node's kind."""

    def __call__(self, message: Message, context: Context) -> Message:
        """See flwr.clientapp.ClientApp."""
        return _app_of(context)(message, context)


def _app_of(context: Context) -> ClientApp:
    try:
        kept = (home_folder(context) / SETTINGS).exists()
    except ConfigError:
        return party.app  # which refuses for the same reason
    if not kept:
        return party.app
    from consilium.aggregator import client_app as aggregator  # a second aggregator's code: no party runs it

    return aggregator.app


app = NodeApp()
