"""MuSiQue: questions of two to four hops."""
