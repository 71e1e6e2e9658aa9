"""Robin's own policies, a file each, which nothing else names: the file's name, with dashes, is the scheduler's."""
