"""The runner of studies: requests, cells, jobs, result folders, backends. It names no instrument."""
