"""`consilium`, whose engine `ray` joins a cluster as it did before: Flower's own backend, homes in the run folder."""

from __future__ import annotations

from consilium.cli import main
from consilium.simulations.engines import ray

if __name__ == "__main__":
    ray.CLUSTER_APP = ray.NODE_APP
    main()
