/*
 * Self-tuning: finds better trees while the program runs; part of shim.c.
 *
 * Each communicator is tuned alone, since MPI orders the collectives of one communicator and nothing else. On it, operations of one
 * kind, root and size (within a factor of 2) form a class:
 *
 * 1. The first operations go the library's own way. Two are timed, from a barrier to the end of the last rank.
 * 2. Then three broadcasts or allgathers are exchanges (shim_exchange.h), which time all edges. Classes that cannot exchange wait until
 *    others have timed the edges. If none does, an exchange of bytes of our own follows an operation as soon as it takes
 *    `PROBE_SHARE` of the time until then.
 * 3. Rank 0 plans trees and rings (shim_search.h), and each is tried as long as it may be the fastest.
 * 4. The library stays unless another way takes `LEAST_SAVING` less time.
 * 5. The way that is kept is timed again after 8, 16, 32, ... operations, others more rarely the slower they were. If the kept one takes
 *    `CHANGED` times as long as before twice in a row, the class starts again.
 *
 * What an operation does follows from its number in its class and from what rank 0 has sent to all. So all ranks change at the same
 * operation.
 */

enum { EXCHANGE = 1, FIRST_PLANNED, MOST_WAYS = 6 }; /* way 0 is the library's */
enum { PROBE = -1 };                                 /* instead of a timed way: an exchange of bytes of our own */
enum { MOST_AGENDA = 12, MOST_SAMPLES = 5, ENOUGH_SAMPLES = 3, MOST_CLASSES = 64 };
enum { MOST_TUNED_RANKS = 256 }; /* an exchange opens a connection from each rank to each other one */
enum { KEPT, QUIET, COUNT, KNOWN, RESTART, ADDED, AGENDA, HEAD = AGENDA + MOST_AGENDA };
enum { SHAPE, MEMBERS, TOP, FIRST_SEGMENT, SECOND_SEGMENT, WAY_HEAD };
enum { FLAT, TREE, CHAIN, RING, TWO_TREES, SHAPES };

static const char *const SHAPE_NAMES[SHAPES] = {"flat tree", "tree", "chain", "ring", "two trees"};

#define WARM_OPERATIONS 1       /* of a class, which open connections */
enum { EXCHANGES = 3, FITS = 5 };
#define LEAST_BLOCK 8192        /* bytes of a block that can be timed */
#define PROBE_BYTES 32768
#define PROBE_SHARE 0.02
#define LEAST_SAVING 0.03
#define CLOSE 1.1               /* ways that take less than this much longer than the fastest are timed more often */
#define HOPELESS 1.2            /* ways that are predicted to take longer than this, relative to the library, are not tried */
#define CHANGED 1.2
#define FIRST_INTERVAL 8
#define LAST_INTERVAL 512
#define SECOND_CHANCE 64        /* operations until a way with few samples is timed again */
#define TRIAL_SHARE 0.001       /* of the time, for each way that is not kept */

typedef struct {
    const char *name; /* NULL = there is no such way */
    Tree trees[2];
    double samples[MOST_SAMPLES]; /* at rank 0: the last ones, in seconds a byte */
    long timed, due;              /* at rank 0: number of samples, and the operation after which the next one is taken */
} Way;

typedef struct Class {
    int operation, root, octave, kept, planned, doubts, at, agenda_count, agenda[MOST_AGENDA];
    double bytes, times[MOST_AGENDA];
    long calls, quiet, interval; /* `quiet`: operations until the agenda begins */
    Way ways[MOST_WAYS];
    struct Class *next;
} Class;

/* What is known of one communicator; an attribute of it. */
typedef struct Group {
    MPI_Comm shadow;              /* of our own, with the same ranks */
    int me, ranks, known, classes; /* `ranks` is 0 if it is not tuned; `known`: whether edges have been timed */
    Edges edges;
    double *matrix;               /* at rank 0: the edges of all ranks */
    Class *first;
    struct Group *next;
} Group;

static int tuning, reordering, explaining, group_key = MPI_KEYVAL_INVALID;
static Group *groups;
static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- samples, at rank 0 ---- */

static void add_sample(Way *way, double seconds) { way->samples[way->timed++ % MOST_SAMPLES] = seconds; }

/* The median of the last samples; INFINITY without any. */
static double usual(const Way *way) {
    double sorted[MOST_SAMPLES];
    int count = way->timed < MOST_SAMPLES ? (int)way->timed : MOST_SAMPLES;
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > way->samples[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = way->samples[i];
    }
    return count == 0 ? INFINITY : count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* ---- classes ---- */

static int collects_blocks(int operation) {
    return operation == SCATTER || operation == GATHER || operation == ALLGATHER;
}

static int can_exchange(const Group *group, const Class *class) {
    double least = ldexp(1, class->octave);
    if (class->operation == ALLGATHER) return least >= LEAST_BLOCK;
    return class->operation == BROADCAST && least >= (double)LEAST_BLOCK * group->ranks;
}

static int needs_edges(const Class *class) { return class->operation != SCATTER && class->operation != GATHER; }

static void plan_for(Class *class, int action) { class->agenda[class->agenda_count++] = action; }

static void forget_planned(Class *class) {
    for (int i = FIRST_PLANNED; i < MOST_WAYS; i++) {
        free(class->ways[i].trees[0].child), free(class->ways[i].trees[1].child);
        class->ways[i] = (Way){0};
    }
}

/* The agenda of a class that starts; the same on all ranks. */
static void begin(Group *group, Class *class) {
    class->kept = class->planned = class->doubts = class->at = class->agenda_count = 0;
    if (!class->interval) class->interval = FIRST_INTERVAL;
    forget_planned(class);
    class->ways[0] = (Way){.name = "the library"};
    class->ways[EXCHANGE] = (Way){0};
    plan_for(class, 0);
    if (!group->known && can_exchange(group, class)) {
        Tree direct = {.kind = class->operation, .root = class->root, .exchange = &group->edges};
        direct.me = group->me, direct.ranks = group->ranks;
        direct.parent = group->me == class->root ? -1 : class->root;
        class->ways[EXCHANGE] = (Way){.name = "exchange", .trees = {direct}};
        for (int i = 0; i < EXCHANGES; i++) plan_for(class, EXCHANGE);
    }
    plan_for(class, 0);
}

static Class *class_of(Group *group, const Call *call, double bytes) {
    int octave = ilogb(bytes), root = call->operation == ALLGATHER || call->operation == ALLREDUCE ? 0 : call->root;
    for (Class *each = group->first; each; each = each->next)
        if (each->operation == call->operation && each->root == root && each->octave == octave) return each;
    if (group->classes == MOST_CLASSES) return NULL;
    Class *class = room(sizeof *class);
    *class = (Class){.operation = call->operation, .root = root, .octave = octave, .quiet = WARM_OPERATIONS};
    class->next = group->first, group->first = class, group->classes++;
    return begin(group, class), class;
}

/* ---- planning, at rank 0 ---- */

/*
 * The seconds of a byte on all edges. A rank that is not on its processor finds marks and blocks late, so that single times scatter. Senders
 * and receivers differ more than pairs do: a pair is estimated by what is usual for both, changed by half of its own difference from that.
 * Returns whether any edge was timed.
 */
static int estimate(const Group *group, double *edges) {
    int n = group->ranks, timed = 0;
    double *out = room(sizeof *out * 2 * n), *in = out + n;
    for (int i = 0; i < 2 * n; i++) out[i] = 0;
    for (int to = 0; to < n; to++)
        for (int from = 0; from < n; from++) {
            const double *known = group->matrix + 2 * n * to + from;
            edges[from * n + to] = from != to && known[n] > 0 ? log(known[0] / known[n]) : NAN;
            timed += !isnan(edges[from * n + to]);
        }
    for (int round = 0; round < 2 * FITS; round++) {
        double *fitted = round % 2 ? in : out, *other = round % 2 ? out : in;
        for (int i = 0; i < n; i++) {
            double sum = 0, count = 0;
            for (int j = 0; j < n; j++) {
                double each = round % 2 ? edges[j * n + i] : edges[i * n + j];
                if (!isnan(each)) sum += each - other[j], count++;
            }
            fitted[i] = count ? sum / count : 0;
        }
    }
    for (int i = 0; i < n * n; i++) {
        double usually = out[i / n] + in[i % n];
        edges[i] = exp(isnan(edges[i]) ? usually : (usually + edges[i]) / 2);
    }
    free(out);
    return timed > 0;
}

/* The rank with the fastest edges to and from all others. */
static int centre(const Links *links) {
    int n = links->ranks, best = 0;
    double least = INFINITY;
    for (int rank = 0; rank < n; rank++) {
        double sum = 0;
        for (int other = 0; other < n; other++)
            if (other != rank) sum += links->per_byte[rank * n + other] + links->per_byte[other * n + rank];
        if (sum < least) least = sum, best = rank;
    }
    return best;
}

static int way_length(const Group *group) { return WAY_HEAD + 4 * group->ranks; }

static void star(int root, int ranks, int *parent, int *order) {
    for (int rank = 0, at = 1; rank < ranks; rank++) {
        parent[rank] = root;
        if (rank != root) order[at++] = rank;
    }
    order[0] = root;
}

/* Plans one way of a shape in `way`, as `take_way` reads it. Returns its predicted seconds. */
static double plan_way(const Class *class, Links *links, int shape, int *way) {
    int n = links->ranks, pieces = 1, *first = way + WAY_HEAD, *second = first + 2 * n;
    int sums = class->operation == ALLREDUCE, up = class->operation == REDUCE || class->operation == GATHER;
    double bytes = class->bytes, seconds = 0, whole = class->operation == ALLGATHER ? bytes * n : bytes;
    memset(way, 0, sizeof *way * (WAY_HEAD + 4 * (size_t)n));
    way[SHAPE] = shape, way[TOP] = shape == TWO_TREES ? centre(links) : class->root;
    links->back = up || (shape == TWO_TREES && sums);
    if (shape == FLAT || (shape == TWO_TREES && !sums)) {
        star(way[TOP], n, first, first + n);
        for (int rank = 0; shape == TWO_TREES && rank < n; rank++)
            if (rank != way[TOP]) seconds = fmax(seconds, bytes * links->per_byte[rank * n + way[TOP]]);
    } else if (shape == RING) {
        seconds = find_ring(links, bytes, sums, first, first + n, &way[MEMBERS]);
        double share = sums ? bytes / way[MEMBERS] : bytes;
        way[FIRST_SEGMENT] = (int)fmin(share, 65536), way[TOP] = first[n];
    } else {
        seconds = find_tree(links, way[TOP], bytes, shape == CHAIN, first, first + n, &pieces);
        way[FIRST_SEGMENT] = (int)ceil(bytes / pieces);
    }
    links->back = 0;
    if (shape == TWO_TREES) {
        seconds += find_tree(links, way[TOP], whole, 0, second, second + n, &pieces);
        way[SECOND_SEGMENT] = (int)ceil(whole / pieces);
    }
    return seconds;
}

static const int SHAPES_OF[OPERATIONS][2] = {
    [BROADCAST] = {TREE, CHAIN}, [REDUCE] = {TREE, CHAIN},         [SCATTER] = {FLAT, FLAT},
    [GATHER] = {FLAT, FLAT},     [ALLGATHER] = {RING, TWO_TREES}, [ALLREDUCE] = {RING, TWO_TREES},
};

/* Plans all ways of a class one after the other in `ways`. Returns how many. */
static int plan_ways(const Group *group, const Class *class, int *ways) {
    double *edges = room(sizeof *edges * group->ranks * group->ranks);
    double most = HOPELESS * usual(&class->ways[0]) * class->bytes;
    Links links = {.ranks = group->ranks, .latency = group->edges.latency, .per_byte = edges};
    int planned = 0, fine = !needs_edges(class) || estimate(group, edges);
    drawn_state = 88172645463325252ULL;
    for (int i = 0; fine && i < 2 && (i == 0 || SHAPES_OF[class->operation][1] != SHAPES_OF[class->operation][0]); i++)
        planned += plan_way(class, &links, SHAPES_OF[class->operation][i], ways + planned * way_length(group)) < most;
    free(edges);
    return planned;
}

/* ---- deciding, at rank 0 ---- */

/* How many operations may pass until a way that is not kept is timed again. */
static long rest_of(const Class *class, const Way *way) {
    double more = usual(way) / usual(&class->ways[class->kept]) - 1;
    /* One sample may have been slow by chance. */
    if (way->timed < ENOUGH_SAMPLES && (way == &class->ways[0] || more < 1)) return SECOND_CHANCE;
    double rest = fmax(4.0 * class->interval, more / TRIAL_SHARE);
    return rest < 1e9 ? (long)rest : 1000000000L;
}

static void choose_way(Class *class) {
    int best = 0;
    for (int i = 0; i < MOST_WAYS; i++)
        if (class->ways[i].name && usual(&class->ways[i]) < usual(&class->ways[best])) best = i;
    double fastest = usual(&class->ways[best]);
    if (fastest < (1 - LEAST_SAVING) * usual(&class->ways[class->kept])) class->kept = best;
    if (usual(&class->ways[class->kept]) > (1 - LEAST_SAVING) * usual(&class->ways[0])) class->kept = 0;
}

/* Whether the kept way has become slower: its last sample compared with the others. */
static int has_changed(const Class *class) {
    const Way *kept = &class->ways[class->kept];
    if (kept->timed < ENOUGH_SAMPLES + 1) return 0;
    return kept->samples[(kept->timed - 1) % MOST_SAMPLES] > CHANGED * usual(kept);
}

/* Decides how the class goes on, and writes it for all ranks: `head`, and new ways in `ways`. */
static void decide(Group *group, Class *class, const double *slowest, int *head, int *ways) {
    int probed = 0, check = class->agenda_count > 0 && class->agenda[0] == class->kept && class->planned;
    for (int i = 0; i < class->agenda_count; i++) {
        probed |= class->agenda[i] == PROBE || class->agenda[i] == EXCHANGE;
        if (class->agenda[i] != PROBE) add_sample(&class->ways[class->agenda[i]], slowest[i]);
    }
    memset(head, 0, sizeof *head * HEAD);
    class->doubts = check && has_changed(class) ? class->doubts + 1 : 0;
    head[KNOWN] = group->known || probed;
    if (class->doubts > 1) {
        head[RESTART] = 1;
        return;
    }
    if (!class->planned && (head[KNOWN] || !needs_edges(class))) head[ADDED] = plan_ways(group, class, ways);
    choose_way(class);
    head[KEPT] = class->kept;
    for (int i = 0; i < head[ADDED]; i++) head[AGENDA + head[COUNT]++] = FIRST_PLANNED + i;
    if (class->doubts) head[AGENDA + head[COUNT]++] = class->kept;
    double fastest = usual(&class->ways[class->kept]);
    for (int i = 0; i < MOST_WAYS; i++) {
        Way *way = &class->ways[i];
        if (way->name && way->timed < ENOUGH_SAMPLES && usual(way) < CLOSE * fastest && head[COUNT] < MOST_AGENDA)
            head[AGENDA + head[COUNT]++] = i;
        way->due = way->due > class->calls ? way->due : 0;
    }
    if (head[COUNT]) return;
    if (needs_edges(class) && !head[KNOWN]) {
        double messages = (group->ranks - 1) * (double)PROBE_BYTES / class->bytes;
        head[QUIET] = (int)fmin(messages / PROBE_SHARE, 1e6);
        head[AGENDA] = PROBE, head[AGENDA + 1] = 0, head[COUNT] = 2;
        return;
    }
    head[QUIET] = (int)class->interval;
    class->interval = class->interval < LAST_INTERVAL ? 2 * class->interval : LAST_INTERVAL;
    head[AGENDA + head[COUNT]++] = class->kept;
    for (int i = 0; i < MOST_WAYS; i++) {
        Way *way = &class->ways[i];
        if (!way->name || i == class->kept || !way->timed) continue;
        if (way->due == 0) way->due = class->calls + rest_of(class, way);
        if (way->due <= class->calls + head[QUIET]) head[AGENDA + head[COUNT]++] = i;
    }
}

/* ---- on all ranks ---- */

static void forget_edges(Group *group) {
    group->edges.latency = INFINITY;
    for (int i = 0; i < 2 * group->ranks; i++) group->edges.seconds[i] = 0;
}

static void take_tree(const Group *group, Tree *tree, int kind, const int *way, int second) {
    const int *parent = way + WAY_HEAD + 2 * group->ranks * second;
    *tree = (Tree){.kind = kind, .root = way[TOP], .members = second ? 0 : way[MEMBERS]};
    tree->me = group->me, tree->ranks = group->ranks;
    tree->segment_bytes = way[second ? SECOND_SEGMENT : FIRST_SEGMENT];
    if (!grow(tree, parent, parent + group->ranks)) out_of_memory();
}

static void take_way(const Group *group, Class *class, const int *way, int number) {
    static const int UP[OPERATIONS] = {[ALLGATHER] = UP_OF_GATHER, [ALLREDUCE] = UP_OF_REDUCE};
    Way *made = &class->ways[number];
    *made = (Way){.name = SHAPE_NAMES[way[SHAPE]]};
    take_tree(group, &made->trees[0], way[SHAPE] == TWO_TREES ? UP[class->operation] : class->operation, way, 0);
    if (way[SHAPE] == TWO_TREES) take_tree(group, &made->trees[1], UP[class->operation] + 1, way, 1);
}

/* Does as rank 0 has decided. */
static void follow(Group *group, Class *class, const int *head, const int *ways) {
    group->known = head[KNOWN] && !head[RESTART];
    if (head[RESTART]) {
        forget_edges(group);
        begin(group, class);
        return;
    }
    class->kept = head[KEPT], class->quiet = head[QUIET], class->agenda_count = head[COUNT], class->at = 0;
    memcpy(class->agenda, head + AGENDA, sizeof class->agenda);
    for (int i = 0; i < head[ADDED]; i++) take_way(group, class, ways + i * way_length(group), FIRST_PLANNED + i);
    class->planned |= group->known || !needs_edges(class);
}

/* Rank 0 learns how long the timed operations took and decides. All ranks do as it says. */
static int agree(Group *group, Class *class) {
    double slowest[MOST_AGENDA];
    int head[HEAD], *ways = room(sizeof(int) * 2 * way_length(group)), fresh = 0;
    for (int i = 0; i < class->agenda_count; i++) fresh |= class->agenda[i] == PROBE || class->agenda[i] == EXCHANGE;
    TRY(PMPI_Reduce(class->times, slowest, class->agenda_count, MPI_DOUBLE, MPI_MAX, 0, group->shadow));
    if (fresh)
        TRY(PMPI_Gather(group->edges.seconds, 2 * group->ranks, MPI_DOUBLE, group->matrix, 2 * group->ranks, MPI_DOUBLE, 0,
                        group->shadow));
    if (group->me == 0) decide(group, class, slowest, head, ways);
    TRY(PMPI_Bcast(head, HEAD, MPI_INT, 0, group->shadow));
    if (head[ADDED]) TRY(PMPI_Bcast(ways, head[ADDED] * way_length(group), MPI_INT, 0, group->shadow));
    follow(group, class, head, ways);
    free(ways);
    return MPI_SUCCESS;
}

/* Exchanges bytes of our own, which only times edges. */
static int probe(Group *group) {
    Tree direct = {.exchange = &group->edges, .me = group->me, .ranks = group->ranks};
    size_t bytes = (size_t)PROBE_BYTES * group->ranks;
    char *data = room(bytes);
    memset(data, 0, bytes);
    for (int i = 0; i < EXCHANGES; i++) TRY(exchange(data, bytes, PROBE_BYTES, &direct, group->shadow));
    free(data);
    return MPI_SUCCESS;
}

static int run_way(const Call *call, const Group *group, const Way *way, double bytes) {
    return way->trees[0].ranks ? along(call, way->trees, (size_t)bytes, group->shadow) : in_library(call);
}

/* ---- communicators ---- */

static void print_group(const Group *group) {
    for (const Class *class = group->first; explaining && group->me == 0 && class; class = class->next) {
        double own = usual(&class->ways[0]);
        if (isinf(own)) continue;
        fprintf(stderr, "gavotte: %s of %.0f bytes on %d ranks", NAMES[class->operation], class->bytes, group->ranks);
        if (class->operation < ALLGATHER) fprintf(stderr, ", root %d", class->root);
        fprintf(stderr, ": %ld times, ", class->calls);
        for (int i = 0; i < MOST_WAYS; i++)
            if (class->ways[i].timed)
                fprintf(stderr, "%s %.0f us, ", class->ways[i].name, 1e6 * class->bytes * usual(&class->ways[i]));
        fprintf(stderr, "kept: %s (%+.0f %%)\n", class->ways[class->kept].name,
                100 * (usual(&class->ways[class->kept]) / own - 1));
    }
}

/* At the end: communicators that the program has not freed. */
static void print_groups(void) {
    for (const Group *group = groups; group; group = group->next) print_group(group);
    explaining = 0;
}

static int drop_group(MPI_Comm comm, int key, void *value, void *extra) {
    Group *group = value;
    (void)comm, (void)key, (void)extra;
    pthread_mutex_lock(&groups_lock);
    for (Group **at = &groups; *at; at = &(*at)->next)
        if (*at == group) {
            *at = group->next;
            break;
        }
    pthread_mutex_unlock(&groups_lock);
    print_group(group);
    int code = group->shadow == MPI_COMM_NULL ? MPI_SUCCESS : PMPI_Comm_free(&group->shadow);
    for (Class *class = group->first, *next; class; class = next) next = class->next, forget_planned(class), free(class);
    free(group->edges.seconds), free(group->matrix), free(group);
    return code;
}

/* Whether all ranks are of this MPI_COMM_WORLD: those of another one may not be tuned. */
static int is_of_world(MPI_Comm comm, int count) {
    int numbers[MOST_TUNED_RANKS], of_world[MOST_TUNED_RANKS], fine = 1;
    MPI_Group members, world;
    PMPI_Comm_group(comm, &members), PMPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < count; i++) numbers[i] = i;
    PMPI_Group_translate_ranks(members, count, numbers, world, of_world);
    for (int i = 0; i < count; i++) fine &= of_world[i] != MPI_UNDEFINED;
    PMPI_Group_free(&members), PMPI_Group_free(&world);
    return fine;
}

static Group *group_of(MPI_Comm comm) {
    Group *group;
    int found, inter = 1;
    if (comm == MPI_COMM_NULL) return NULL;
    if (PMPI_Comm_get_attr(comm, group_key, &group, &found) == MPI_SUCCESS && found) return group->ranks ? group : NULL;
    group = room(sizeof *group);
    *group = (Group){.shadow = MPI_COMM_NULL};
    PMPI_Comm_test_inter(comm, &inter);
    if (!inter) PMPI_Comm_size(comm, &group->ranks), PMPI_Comm_rank(comm, &group->me);
    if (group->ranks < 3 || group->ranks > MOST_TUNED_RANKS || !is_of_world(comm, group->ranks)) group->ranks = 0;
    PMPI_Comm_set_attr(comm, group_key, group);
    pthread_mutex_lock(&groups_lock);
    group->next = groups, groups = group;
    pthread_mutex_unlock(&groups_lock);
    return group->ranks ? group : NULL;
}

/* Before the first timed operation, so that communicators that live briefly cost nothing. */
static int open_group(Group *group, MPI_Comm comm) {
    if (group->shadow != MPI_COMM_NULL) return MPI_SUCCESS;
    group->edges.seconds = room(sizeof(double) * 2 * group->ranks);
    if (group->me == 0) group->matrix = room(sizeof(double) * 2 * group->ranks * group->ranks);
    forget_edges(group);
    return PMPI_Comm_split(comm, 0, group->me, &group->shadow);
}

/* ---- operations ---- */

static int is_sum(int operation) { return operation == REDUCE || operation == ALLREDUCE; }

/* Whether a reduction has the same result in any order: integers and the operators of MPI. Open MPI adds those of 8 and 16 bits with
 * instructions that saturate, so they are left out. */
static int is_exact(MPI_Datatype type, MPI_Op op) {
    const MPI_Datatype integers[] = {MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG,
                                     MPI_INT32_T, MPI_INT64_T, MPI_UINT32_T, MPI_UINT64_T, MPI_BYTE, MPI_INTEGER};
    const MPI_Op operators[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
    int whole = 0, known = 0;
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) whole |= type == integers[i];
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) known |= op == operators[i];
    return whole && known;
}

static int is_tunable(const Group *group, const Call *call, double bytes) {
    double all = collects_blocks(call->operation) ? bytes * group->ranks : bytes;
    if (!(bytes > 0) || all < min_bytes || all > INT_MAX) return 0;
    if (call->operation < ALLGATHER && (call->root < 0 || call->root >= group->ranks)) return 0;
    return !is_sum(call->operation) || (may_reduce(call->type, call->op) && (reordering || is_exact(call->type, call->op)));
}

/* Counts an operation. Returns whether it is not on the agenda; those that wait for timed edges wait no longer when there are some. */
static int is_quiet(const Group *group, Class *class) {
    class->calls++;
    if (class->quiet == 0 || (class->agenda[0] == PROBE && group->known)) return 0;
    return class->quiet--, 1;
}

static int tune(const Call *call) {
    Group *group = group_of(call->comm);
    double bytes = group ? bytes_of_call(call, group->me) : 0;
    Class *class = group && is_tunable(group, call, bytes) ? class_of(group, call, bytes) : NULL;
    if (!class) return in_library(call);
    class->bytes = bytes;
    if (is_quiet(group, class)) return run_way(call, group, &class->ways[class->kept], bytes);
    int action = class->agenda[class->at];
    TRY(open_group(group, call->comm));
    TRY(PMPI_Barrier(group->shadow));
    double began = PMPI_Wtime();
    TRY(run_way(call, group, &class->ways[action == PROBE ? class->kept : action], bytes));
    class->times[class->at++] = (PMPI_Wtime() - began) / bytes;
    if (action == PROBE && !group->known) TRY(probe(group));
    return class->at == class->agenda_count ? agree(group, class) : MPI_SUCCESS;
}

static void start_tuning(int reorder) {
    tuning = 1, reordering = reorder;
    explaining = getenv("GAVOTTE_VERBOSE") && atoi(getenv("GAVOTTE_VERBOSE"));
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, drop_group, &group_key, NULL);
}
