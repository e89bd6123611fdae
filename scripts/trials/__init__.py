"""Trials on a simulated cluster: nodes as processes of this machine, a served scorer, faults."""
