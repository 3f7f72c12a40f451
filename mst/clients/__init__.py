"""One file per way to drive a program under test."""
