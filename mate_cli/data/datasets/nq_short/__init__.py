"""Natural Questions with short answers, in the three layouts that others have made of them."""
