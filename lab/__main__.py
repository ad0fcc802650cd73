"""What bin/hakmem starts: `python lab` runs this, with lab/ as the place to import from."""

from hakmem_lab.cli import main

if __name__ == "__main__":
    main()
