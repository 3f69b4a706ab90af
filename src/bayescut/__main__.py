"""``python -m bayescut``: the command line."""

from bayescut.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
