"""The suite programs: real programs of Debian at real work, each for about a second.

program     what a benchmark of the suite is: its command, its inputs, what must come out
inputs      the files that they work on, generated, the same each time
sources     large source files for the compilers
catalogue   the programs
scripts/    what they do, each in its own language
"""
