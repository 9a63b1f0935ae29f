"""TimeQA: questions whose answers depend on the time that they name."""
