"""From the columns of a file to times, labels and the values of features."""
