def bound_left_out(state, power): raise NotImplementedError
