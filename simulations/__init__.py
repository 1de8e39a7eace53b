"""Many parties on one machine or one Ray cluster: data sets, partitions, scenarios, engines, report."""
