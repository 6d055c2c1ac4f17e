"""What crosses a process, without any I/O: frames, commands, entries, batches, codecs."""
