"""What is minimised: terms, and the small arrays they are written in."""
