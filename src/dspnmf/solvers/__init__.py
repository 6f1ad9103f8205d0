"""How it is minimised: the loop, the inner solvers, published rules, starts."""
