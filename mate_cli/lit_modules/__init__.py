"""Tasks, one per file, as torch modules.

`lit_task` contains the LightningModule that trains any task.
"""
