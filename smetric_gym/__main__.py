"""``python -m smetric_gym``: the same as the command ``smetric-gym``."""

import sys

from smetric_gym.cli import main

if __name__ == "__main__":
    sys.exit(main())
