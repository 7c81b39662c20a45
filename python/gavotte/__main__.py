"""`python -m gavotte`, for programs that start the command from the same environment."""

from gavotte.cli import main

if __name__ == "__main__":
    main()
