"""robin's own policies, a file each. The file's name, with dashes, is the scheduler's; no other module names one."""
