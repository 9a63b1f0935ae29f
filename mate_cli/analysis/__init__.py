"""Analyses of trained networks: each is a file here and one in conf/analysis/."""
