"""The health check of kits of version 0.9: `python -P -m consilium.protocol.monitor.health KIT`; see `node.health`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("consilium.node.health", run_name="__main__", alter_sys=True)
