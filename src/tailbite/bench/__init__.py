"""Paired benchmarks of two revisions, or of any two commands: what changed, how sure it is, and when it cannot tell.

    tailbite bench verify HEAD~1 v0.1 --pairs 20

A is the candidate, B the baseline. ``sides`` builds revisions, ``pairs`` runs processes in A B B A order,
``statistics`` judges, ``comparisons`` says what is compared, ``report`` and ``page`` write it down. The method is
explained in docs/benchmarking.md.
"""
