"""Tasks, one per file, as modules of torch; `lit_task` has the LightningModule that trains any of them."""
