"""Training, evaluation, inference and export of runs with one or several stages."""
