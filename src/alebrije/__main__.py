"""``python -m alebrije`` is the command ``alebrije``."""

from alebrije.cli import main

main()
