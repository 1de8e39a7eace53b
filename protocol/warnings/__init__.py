"""What a run should warn of: that it promises little, that its noise drowns the votes, that its student is worth nothing."""
