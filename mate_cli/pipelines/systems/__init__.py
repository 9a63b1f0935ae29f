"""Systems, which combine the predictions of several stages into answers."""
