"""`consilium plan`: what a scenario or a provisioning file would be worth, before anything is asked."""
