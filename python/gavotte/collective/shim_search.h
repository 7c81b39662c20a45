/*
 * Trees and rings for the edges that the ranks have timed; part of shim.c.
 *
 * A small version of crates/collective, for one rank of a running program: the same model of time, and simulated annealing from one
 * start, with a fixed number of moves and a fixed seed. Its results are tried before they are kept.
 */

enum {
    MOVES = 6000,       /* 1 ms at 16 ranks, 10 ms at 256 */
    MOST_PIECES = 256,
    LEAST_PIECE = 16384 /* bytes, below which the cost of a message decides */
};
#define MEAN_COUNTS 0.02 /* weight of the mean rank's time relative to the last one's: most moves do not change the last */
#define OVERHEAD 1e-5        /* seconds that a message costs its sender */
#define HOT 0.02         /* temperature at the start and at the end, as a share of the first time */
#define COLD 0.00005

/* The timed edges. */
typedef struct {
    int ranks, back;        /* `back`: messages go up the tree, as in a reduction */
    double latency;         /* of a message, in seconds */
    const double *per_byte; /* seconds, from each rank (row) to each (column) */
} Links;

/* How long a message keeps its sender busy. */
static double link_seconds(const Links *links, int from, int to, double bytes) {
    int at = links->back ? to * links->ranks + from : from * links->ranks + to;
    return OVERHEAD + bytes * links->per_byte[at];
}

static _Thread_local unsigned long long drawn_state;

/* A number from 0 to below `most`. */
static int draw(int most) {
    drawn_state ^= drawn_state << 13, drawn_state ^= drawn_state >> 7, drawn_state ^= drawn_state << 17;
    return (int)((drawn_state >> 11) % (unsigned long long)most);
}

static int is_accepted(double more, double temperature) {
    return more <= 0 || more < -temperature * log((draw(1 << 30) + 1.0) / (1 << 30));
}

/* ---- trees ---- */

/* A tree by places: the rank at each place, and the place of its parent, which is an earlier one. The root is at 0. */
typedef struct {
    int ranks, pieces, *rank, *up;
} Shape;

/* The seconds until the last rank has everything, as `time` of crates/collective: in `work`, 4 numbers for each rank. */
static double tree_seconds(const Links *links, const Shape *shape, double bytes, double *work) {
    int n = shape->ranks;
    double *clock = work, *busy = work + n, *first = work + 2 * n, *pace = work + 3 * n, last = 0, sum = 0;
    double piece = bytes / shape->pieces;
    clock[0] = busy[0] = first[0] = pace[0] = 0;
    for (int place = 1; place < n; place++) {
        int above = shape->up[place];
        double sends = link_seconds(links, shape->rank[above], shape->rank[place], piece);
        clock[above] += sends, busy[above] += sends, busy[place] = 0;
        first[place] = clock[place] = clock[above] + links->latency;
    }
    for (int place = 1; place < n; place++) {
        int above = shape->up[place];
        pace[place] = fmax(pace[above], busy[above]);
        double end = first[place] + (shape->pieces - 1) * pace[place];
        last = fmax(last, end), sum += end;
    }
    return last + MEAN_COUNTS * sum / n;
}

/* A chain in which each rank sends to the nearest that is left. */
static void start_chain(const Links *links, Shape *shape, double bytes) {
    int n = shape->ranks;
    for (int place = 1; place < n; place++) {
        int best = place, from = shape->rank[place - 1];
        for (int other = place + 1; other < n; other++)
            if (link_seconds(links, from, shape->rank[other], bytes) < link_seconds(links, from, shape->rank[best], bytes))
                best = other;
        int swap = shape->rank[place];
        shape->rank[place] = shape->rank[best], shape->rank[best] = swap;
        shape->up[place] = place - 1;
    }
}

/* A tree whose ranks send about as long: fast senders come first and get more children, slow ones become leaves. */
static void start_tree(const Links *links, Shape *shape, double bytes, double *work) {
    int n = shape->ranks;
    double *out = work, *busy = work + n;
    for (int a = 0; a < n; a++) {
        out[a] = busy[a] = 0;
        for (int b = 0; b < n; b++) out[a] += a == b ? 0 : link_seconds(links, a, b, bytes);
    }
    for (int place = 1; place < n; place++) {
        for (int other = place + 1; other < n; other++)
            if (out[shape->rank[other]] < out[shape->rank[place]]) {
                int swap = shape->rank[place];
                shape->rank[place] = shape->rank[other], shape->rank[other] = swap;
            }
        double least = INFINITY;
        for (int above = 0; above < place; above++) {
            double then = busy[above] + link_seconds(links, shape->rank[above], shape->rank[place], bytes);
            if (then < least) least = then, shape->up[place] = above;
        }
        busy[shape->up[place]] = least, busy[place] = 0;
    }
}

static void move_tree(Shape *shape, int chain, int most) {
    int a = 1 + draw(shape->ranks - 1), b = 1 + draw(shape->ranks - 1), kind = draw(8), rank = shape->rank[a];
    if (kind == 0) {
        int pieces = (int)(shape->pieces * (0.7 + draw(8) * 0.1) + 0.5);
        shape->pieces = pieces < 1 ? 1 : pieces > most ? most : pieces;
    } else if (kind < 4) {
        shape->rank[a] = shape->rank[b], shape->rank[b] = rank;
    } else if (chain) {
        for (; a < b; a++) shape->rank[a] = shape->rank[a + 1];
        for (; a > b; a--) shape->rank[a] = shape->rank[a - 1];
        shape->rank[b] = rank;
    } else {
        shape->up[a] = kind < 7 ? draw(a) : a - 1;
    }
}

static void copy_shape(Shape *to, const Shape *from) {
    memcpy(to->rank, from->rank, sizeof(int) * from->ranks);
    memcpy(to->up, from->up, sizeof(int) * from->ranks);
    to->pieces = from->pieces;
}

/*
 * Finds a tree, or a chain, for `bytes` from `root`: the parent of each rank, and an order in which parents come first. Returns its
 * seconds.
 */
static double find_tree(const Links *links, int root, double bytes, int chain, int *parent, int *order, int *pieces) {
    int n = links->ranks, most = bytes / LEAST_PIECE > MOST_PIECES ? MOST_PIECES : (int)(bytes / LEAST_PIECE);
    int *lists = room(sizeof *lists * 6 * n);
    double *work = room(sizeof *work * 4 * n);
    Shape now = {n, most > 16 ? 16 : most < 1 ? 1 : most, lists, lists + n};
    Shape before = {n, 1, lists + 2 * n, lists + 3 * n}, best = {n, 1, lists + 4 * n, lists + 5 * n};
    for (int i = 0; i < n; i++) now.rank[i] = i, now.up[i] = 0;
    now.rank[0] = root, now.rank[root] = 0;
    if (chain) start_chain(links, &now, bytes / now.pieces);
    else start_tree(links, &now, bytes / now.pieces, work);
    double value = tree_seconds(links, &now, bytes, work), least = value;
    double temperature = HOT * value, cooling = pow(COLD / HOT, 1.0 / MOVES);
    copy_shape(&best, &now);
    for (int i = 0; i < MOVES; i++, temperature *= cooling) {
        copy_shape(&before, &now);
        move_tree(&now, chain, most < 1 ? 1 : most);
        double then = tree_seconds(links, &now, bytes, work);
        if (!is_accepted(then - value, temperature)) {
            copy_shape(&now, &before);
            continue;
        }
        value = then;
        if (value < least) least = value, copy_shape(&best, &now);
    }
    for (int place = 0; place < n; place++) {
        order[place] = best.rank[place];
        parent[best.rank[place]] = best.rank[best.up[place]];
    }
    *pieces = best.pieces;
    free(lists), free(work);
    return least;
}

/* ---- rings ---- */

/*
 * The seconds of a ring: of the rank that is busy longest, and what hanging ranks send before. Ranks are in a circle; one that `hangs`
 * belongs to the last member before it. With `sums`, vectors of `bytes` are combined, else blocks of `bytes` collected.
 */
static double ring_seconds(const Links *links, const int *order, const char *hangs, double bytes, int sums) {
    int n = links->ranks, start = 0, members = 0;
    double up = 0, down = 0, total = 0;
    for (int i = 0; i < n; i++) members += !hangs[order[i]];
    while (hangs[order[start]]) start++;
    for (int i = 0, group; i < n; i += group) {
        int member = order[(start + i) % n];
        double busy = 0;
        for (group = 1; i + group < n && hangs[order[(start + i + group) % n]]; group++) {
            int rank = order[(start + i + group) % n];
            double sends = link_seconds(links, rank, member, bytes);
            busy += sums ? link_seconds(links, member, rank, bytes) : (n - 1) * link_seconds(links, member, rank, bytes);
            up = fmax(up, sends), total += sends;
        }
        int next = order[(start + i + group) % n];
        /* What comes from the next member's own group has come round, and is not sent to it. */
        if (members > 1 && sums) busy += 2 * (members - 1) * link_seconds(links, member, next, bytes / members);
        else if (members > 1) busy += (n - 1) * link_seconds(links, member, next, bytes);
        down = fmax(down, busy), total += busy;
    }
    return up + down + MEAN_COUNTS * total / n;
}

/*
 * Starts a ring: members each next to the nearest, and the slowest senders hanging from the fastest. One slow member alone makes a ring
 * slow, so moves that take one away after the other would find no way. `chain` is the order of all ranks.
 */
static void start_ring(const Links *links, const int *chain, double bytes, int sums, int *order, char *hangs) {
    int n = links->ranks, *by_rate = room(sizeof *by_rate * 3 * n), *behind = by_rate + n, *best = by_rate + 2 * n, fewest = 0;
    double *out = room(sizeof *out * n), least = INFINITY;
    for (int a = 0; a < n; a++) {
        int at = a;
        out[a] = 0;
        for (int b = 0; b < n; b++) out[a] += a == b ? 0 : link_seconds(links, a, b, bytes);
        for (; at > 0 && out[by_rate[at - 1]] < out[a]; at--) by_rate[at] = by_rate[at - 1];
        by_rate[at] = a;
    }
    for (int hung = 0; hung <= n / 2; hung++) {
        int end = 0;
        for (int i = 0; i < n; i++) hangs[by_rate[i]] = i < hung, behind[by_rate[n - 1 - i]] = i < hung ? by_rate[i] : -1;
        for (int i = 0; i < n; i++) {
            if (hangs[chain[i]]) continue;
            order[end++] = chain[i];
            if (behind[chain[i]] >= 0) order[end++] = behind[chain[i]];
        }
        double seconds = ring_seconds(links, order, hangs, bytes, sums);
        if (seconds < least) least = seconds, fewest = hung, memcpy(best, order, sizeof *order * n);
    }
    for (int i = 0; i < n; i++) hangs[by_rate[i]] = i < fewest, order[i] = best[i];
    free(by_rate), free(out);
}

static void move_ring(int *order, char *hangs, int n) {
    int a = draw(n), b = draw(n), kind = draw(4), rank = order[a];
    if (kind == 0) {
        order[a] = order[b], order[b] = rank;
    } else if (kind == 1) {
        for (int low = a < b ? a : b, high = a < b ? b : a; low < high; low++, high--) {
            int swap = order[low];
            order[low] = order[high], order[high] = swap;
        }
    } else {
        for (; a < b; a++) order[a] = order[a + 1];
        for (; a > b; a--) order[a] = order[a - 1];
        order[b] = rank;
        if (kind == 2) hangs[rank] = !hangs[rank];
    }
}

/* Finds a ring: members first in `order`, each one's parent the one before, then those that hang from their parent. */
static double find_ring(const Links *links, double bytes, int sums, int *parent, int *order, int *members) {
    int n = links->ranks, *lists = room(sizeof *lists * 3 * n), *before = lists + n, *best = lists + 2 * n;
    char *hangs = room(3 * (size_t)n), *hung_before = hangs + n, *hung_best = hangs + 2 * n;
    Shape chain = {n, 1, before, best};
    for (int i = 0; i < n; i++) before[i] = i;
    start_chain(links, &chain, bytes);
    start_ring(links, before, bytes, sums, lists, hangs);
    double value = ring_seconds(links, lists, hangs, bytes, sums), least = value;
    double temperature = HOT * value, cooling = pow(COLD / HOT, 1.0 / MOVES);
    memcpy(best, lists, sizeof *lists * n), memcpy(hung_best, hangs, n);
    for (int i = 0; i < MOVES; i++, temperature *= cooling) {
        int left = 0;
        memcpy(before, lists, sizeof *lists * n), memcpy(hung_before, hangs, n);
        move_ring(lists, hangs, n);
        for (int rank = 0; rank < n; rank++) left += !hangs[rank];
        double then = left < 2 ? INFINITY : ring_seconds(links, lists, hangs, bytes, sums);
        if (!is_accepted(then - value, temperature)) {
            memcpy(lists, before, sizeof *lists * n), memcpy(hangs, hung_before, n);
            continue;
        }
        value = then;
        if (value < least) least = value, memcpy(best, lists, sizeof *lists * n), memcpy(hung_best, hangs, n);
    }
    int first = 0, last = 0, at = 0;
    while (hung_best[best[first]]) first++;
    for (int i = 0; i < n; i++) {
        int rank = best[(first + i) % n];
        if (!hung_best[rank]) parent[rank] = at ? last : rank, order[at++] = last = rank;
        else parent[rank] = last;
    }
    *members = at;
    for (int i = 0; i < n; i++)
        if (hung_best[best[(first + i) % n]]) order[at++] = best[(first + i) % n];
    free(lists), free(hangs);
    return least;
}
