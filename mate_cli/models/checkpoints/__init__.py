from mate_cli.models.checkpoints.load import InitOptions, LoadReport, load_weights

__all__ = ["InitOptions", "LoadReport", "load_weights"]
