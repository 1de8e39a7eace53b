"""Flower ClientApp of a second aggregator: message in, call on an `AggregatorNode`, message out."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flwr.app import Context

from consilium.aggregator.home import check_is_accepted, open_home
from consilium.aggregator.node import AggregatorNode
from consilium.node.answering import TO_PARTIES, AnsweringNode, home_folder
from consilium.protocol.messages import WireModel
from consilium.sums.verified.wire import AggregatorRequest, LinkRequest, OpenRequest

log = logging.getLogger("consilium.aggregator")


def _open(context: Context) -> AggregatorNode:
    home = open_home(home_folder(context))
    check_is_accepted(home)
    return AggregatorNode(home)


ANSWERS: Mapping[type[WireModel], str] = {AggregatorRequest: "hello", OpenRequest: "open", LinkRequest: "link"}
aggregator = AnsweringNode("aggregator", _open, ANSWERS, TO_PARTIES, log)
app = aggregator.app()
