"""Score finished weights: one run or several, splits and new questions, and the files of predictions."""
