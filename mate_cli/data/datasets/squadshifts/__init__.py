"""SQuADShifts: questions of the kind of SQuAD about new texts."""
