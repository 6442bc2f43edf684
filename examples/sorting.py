"""Sorting: ``tailbite prove examples/sorting.py 5,3,9,1,0,7,2,8``.

The list is private. The proof shows the sorted list, so it shows what the prover's list holds, but not in what order
it was.
"""

import tailbite
from tailbite import Array, Private, u32, u64


@tailbite.guest
def sorted_items(xs: Private[Array[u32, 8]]) -> None:
    """Commit the eight numbers in ascending order (insertion sort)."""
    for i in range(8):
        x = xs[i]
        j = u64(i)
        while j != 0 and xs[j - 1] > x:
            xs[j] = xs[j - 1]
            j -= 1
        xs[j] = x
    tailbite.commit(xs)
