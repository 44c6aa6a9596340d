"""SQL that more than one place needs: each word is defined here once."""
