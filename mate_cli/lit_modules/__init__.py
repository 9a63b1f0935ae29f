"""One LightningModule per task."""
