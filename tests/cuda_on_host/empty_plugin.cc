// A library without a table of its own.
