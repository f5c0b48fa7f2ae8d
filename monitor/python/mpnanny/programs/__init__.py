"""What is tried: a target of the user, made anew with its inputs and run under a policy."""
