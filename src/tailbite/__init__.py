"""Tailbite: prove that a program ran."""
