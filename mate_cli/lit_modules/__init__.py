"""Tasks, one per file: torch modules with an output head, a loss, predictions and metrics.

`lit_task` contains the LightningModule that trains any task.
"""
