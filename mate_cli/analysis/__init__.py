"""Analyses of trained networks.

Each analysis has a module here and a file in conf/analysis/.
"""
