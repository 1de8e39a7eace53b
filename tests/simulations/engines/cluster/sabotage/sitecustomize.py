"""On a machine that is to lose power: it does so right after a party has answered a message of the kind that the
environment names, before anybody has the answer. Python imports this first wherever this folder is on its path."""

import importlib.util
import os
import signal
import sys

NODE = "consilium.simulations.engines.cluster_node"


class Saboteur:
    """Finds the module of a node, and changes it once it is loaded."""

    def find_spec(self, name, path, target=None):
        if name != NODE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        real = spec.loader.exec_module

        def loaded(module):
            real(module)
            sabotage(module.NodeDesk)

        spec.loader.exec_module = loaded
        return spec


def sabotage(desk):
    answer = desk.answer

    def last_answer(self, parcel, message, *more):
        done = answer(self, parcel, message, *more)
        block = message.content.config_records.get("block")
        if (block or {}).get("kind", message.metadata.message_type) == os.environ["POWER_FAILS_AT"]:
            os.kill(-1, signal.SIGKILL)  # all processes of this machine but its first and this one
            os._exit(9)
        return done

    desk.answer = last_answer


if "POWER_FAILS_AT" in os.environ and os.getpid() != 1:
    sys.meta_path.insert(0, Saboteur())
