"""Engine `ray` on a cluster that is there already, whose nodes share no folder: parties' homes travel."""
