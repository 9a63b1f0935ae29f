"""Analyses of trained networks, each with a module here and a file in conf/analysis/."""
