"""Systems: what makes answers of several stages. One file each, chosen by `_target_`."""
