/* Estimates of what a rank sends to each other one in a collective, where the library does not count it.
 *
 * They are the algorithms that MPICH and its descendants choose by default, with their thresholds (src/mpi/coll):
 * binomial trees for small messages; scatter and allgather, or recursive halving and doubling, for large ones. Thakur,
 * Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", describe them. `own` is
 * counted from the root.
 */

enum {
    BCAST_TREE = 12288,
    BCAST_DOUBLING = 524288,
    BCAST_RANKS = 8,
    REDUCE_TREE = 2048,
    ALLREDUCE_DOUBLING = 2048,
    ALLGATHER_BRUCK = 81920,
    ALLGATHER_DOUBLING = 524288,
    ALLTOALL_BRUCK = 256,
    REDUCE_SCATTER_HALVING = 524288,
};

static void shape(const Members *all, int target, Bytes size) { add(shaped, all, target, size); }

static int is_power(int n) { return (n & (n - 1)) == 0; }

static int power_below(int n) {
    int power = 1;
    while (2 * power <= n) power *= 2;
    return power;
}

static int from_root(const Members *all, int root) { return (all->own - root + all->n) % all->n; }

static int in_comm(const Members *all, int from, int root) { return (from + root) % all->n; }

/* Send each child of a binomial tree the vector (block 0), or the blocks of all ranks below it. */
static void shape_tree_out(const Members *all, int root, Bytes size, Bytes block) {
    int own = from_root(all, root), mask = 1;
    while (mask < all->n && !(own & mask)) mask *= 2;
    for (mask /= 2; mask > 0; mask /= 2) {
        int child = own + mask, below = mask < all->n - child ? mask : all->n - child;
        if (child < all->n) shape(all, in_comm(all, child, root), block ? block * (Bytes)below : size);
    }
}

/* Send the parent of a binomial tree the vector (block 0), or the blocks of all ranks from this one down. */
static void shape_tree_in(const Members *all, int root, Bytes size, Bytes block) {
    int own = from_root(all, root), low = own & -own;
    if (!own) return;
    int below = low < all->n - own ? low : all->n - own;
    shape(all, in_comm(all, own - low, root), block ? block * (Bytes)below : size);
}

/* Exchange with ranks at distances 1, 2, 4 ... as many blocks as are known so far; a power of two of ranks. */
static void shape_doubling(const Members *all, int root, Bytes block) {
    int own = from_root(all, root);
    for (int mask = 1; mask < all->n; mask *= 2) shape(all, in_comm(all, own ^ mask, root), block * (Bytes)mask);
}

static void shape_bcast(const Members *all, int root, Bytes size) {
    Bytes block = (size + (Bytes)all->n - 1) / (Bytes)all->n;
    if (size < BCAST_TREE || all->n < BCAST_RANKS) {
        shape_tree_out(all, root, size, 0);
        return;
    }
    shape_tree_out(all, root, 0, block);
    if (size < BCAST_DOUBLING && is_power(all->n))
        shape_doubling(all, root, block);
    else
        shape(all, (all->own + 1) % all->n, size - block);
}

/* The rank among the power of two of ranks that work, and whose vector was folded into a neighbour's before: -1. */
static int folded(const Members *all, int odd_drop) {
    int rest = all->n - power_below(all->n);
    if (all->own >= 2 * rest) return all->own - rest;
    return all->own % 2 == odd_drop ? -1 : all->own / 2;
}

static int unfolded(const Members *all, int rank, int odd_drop) {
    int rest = all->n - power_below(all->n);
    return rank < rest ? 2 * rank + 1 - odd_drop : rank + rest;
}

/* The last vector of ranks that were folded goes there before, and comes back after if all want it. */
static int shape_fold(const Members *all, Bytes size, int odd_drop, int back) {
    int work = folded(all, odd_drop), rest = all->n - power_below(all->n);
    int pair = all->own % 2 ? all->own - 1 : all->own + 1;
    if (work < 0) shape(all, pair, size);
    if (work >= 0 && all->own < 2 * rest && back) shape(all, pair, size);
    return work;
}

static void shape_allreduce(const Members *all, Bytes size) {
    int work = shape_fold(all, size, 0, 1), power = power_below(all->n);
    if (work < 0) return;
    for (int mask = 1; mask < power; mask *= 2) {
        Bytes part = size <= ALLREDUCE_DOUBLING ? size : size / (Bytes)mask;
        shape(all, unfolded(all, work ^ mask, 0), part);
    }
}

static void shape_reduce(const Members *all, int root, Bytes size) {
    int power = power_below(all->n), rest = all->n - power;
    if (size <= REDUCE_TREE) {
        shape_tree_in(all, root, size, 0);
        return;
    }
    /* A root that was folded takes the place of rank 0 for the second half. */
    int swapped = root < 2 * rest && root % 2, goal = swapped ? 0 : root < 2 * rest ? root / 2 : root - rest;
    int work = shape_fold(all, size, 1, 0);
    if (work < 0) return;
    for (int mask = 1; mask < power; mask *= 2) shape(all, unfolded(all, work ^ mask, 1), size / (Bytes)(2 * mask));
    if (work == 0 && swapped) shape(all, root, size / (Bytes)power);
    if (work == goal) return;
    int mask = power_below(work ^ goal), next = work ^ mask;
    shape(all, swapped && next == 0 ? root : unfolded(all, next, 1), size / (Bytes)(2 * mask));
}

static void shape_scan(const Members *all, Bytes size) {
    for (int mask = 1; mask < all->n; mask *= 2)
        if ((all->own ^ mask) < all->n) shape(all, all->own ^ mask, size);
}

static void shape_reduce_scatter(const Members *all, Bytes whole) {
    Bytes block = whole / (Bytes)all->n;
    if (whole >= REDUCE_SCATTER_HALVING) {
        for (int i = 0; i < all->n; i++)
            if (i != all->own) shape(all, i, block);
        return;
    }
    int power = power_below(all->n), work = shape_fold(all, whole, 0, 0);
    if (work < 0) return;
    if (all->own < 2 * (all->n - power)) shape(all, all->own - 1, block);
    for (int mask = 1; mask < power; mask *= 2) {
        /* The blocks of the partner's half; a rank that another one was folded into has two. */
        int next = work ^ mask, first = next / mask * mask, doubled = all->n - power - first;
        int blocks = mask + (doubled < 0 ? 0 : doubled < mask ? doubled : mask);
        shape(all, unfolded(all, next, 0), block * (Bytes)blocks);
    }
}

/* `whole` is what each rank has in the end. */
static void shape_allgather(const Members *all, Bytes whole) {
    Bytes block = whole / (Bytes)all->n;
    if (whole < ALLGATHER_DOUBLING && is_power(all->n)) {
        shape_doubling(all, 0, block);
    } else if (whole < ALLGATHER_BRUCK) {
        for (int step = 1; step < all->n; step *= 2) {
            int blocks = step < all->n - step ? step : all->n - step;
            shape(all, (all->own - step + all->n) % all->n, block * (Bytes)blocks);
        }
    } else {
        shape(all, (all->own + 1) % all->n, block * (Bytes)(all->n - 1));
    }
}

static void shape_alltoall(const Members *all, Bytes block) {
    if (block > ALLTOALL_BRUCK || all->n < 8) {
        for (int i = 0; i < all->n; i++)
            if (i != all->own) shape(all, i, block);
        return;
    }
    for (int step = 1; step < all->n; step *= 2) {
        Bytes blocks = 0;
        for (int i = 1; i < all->n; i++) blocks += (i & step) != 0;
        shape(all, (all->own + step) % all->n, blocks * block);
    }
}
