"""Questions about databases of your own: learnt from, and answered."""
