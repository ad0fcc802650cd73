"""Other allocators, to compare with.

`registry` lists them and finds those that are here; `install` fetches and builds the rest from
their public packages, each with its own release flags, into the folder paths.peers_dir().
"""
