"""What finished networks do with their inputs: each analysis is a file here and one in conf/analysis/."""
