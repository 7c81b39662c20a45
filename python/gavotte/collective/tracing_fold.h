/* The sequence of operations of this rank, folded into loops while it grows.
 *
 * `top` is the sequence. After each operation, the end of it is compared with what is before it:
 *
 * 1. If the last k nodes equal the body of the loop before them, they become another pass of that loop.
 * 2. If the last k nodes equal the k nodes before them, both become a loop of two passes.
 * 3. A loop that has changed may complete a pass of an outer loop, so 1 and 2 are repeated.
 *
 * Prefix sums of hashes compare k nodes in one step; a match is then checked node by node. Passes of a loop share their
 * nodes, which keep statistics of the times of all passes.
 */

typedef unsigned long long Hash;

/* An operation, or a loop of nodes (op = -1). */
typedef struct Node {
    Hash hash, body_hash;
    int op, depth, size;
    Bytes count; /* a loop's passes, or the number of times that an operation happened here */
    double mean, squares, spent;
    float least, most;
    struct Node **body, *next_free;
} Node;

enum { FOLD_BUCKETS = 1 << 12, MOST_CANDIDATES = 64, MOST_BODY = 1 << 16, MOST_DEPTH = 32, POOL = 256 };

typedef struct {
    Node *node;
    Hash before;  /* hash of all nodes before this one */
    int same, end; /* the node before with this bucket of hashes; the loop before whose body ends in this bucket */
} Place;

static Place *top;
static int top_size, top_room, *same_heads, *end_heads, powers;
static Hash *power;
static Node *free_nodes;
static size_t trace_bytes, trace_budget = (size_t)16 << 20;

static void *trace_alloc(size_t size) {
    void *made = malloc(size);
    if (made) trace_bytes += size;
    return made;
}

static Hash mix(Hash value) {
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ value >> 27) * 0x94d049bb133111ebULL;
    return value ^ value >> 31;
}

static const Hash BASE = 0x9e3779b97f4a7c15ULL;

static int fold_begin(void) {
    same_heads = calloc(2 * FOLD_BUCKETS, sizeof *same_heads);
    power = malloc(sizeof *power * (MOST_BODY + 1));
    if (!same_heads || !power) return 0;
    end_heads = same_heads + FOLD_BUCKETS;
    power[0] = 1;
    return 1;
}

static Node *new_node(void) {
    if (!free_nodes) {
        Node *pool = trace_alloc(POOL * sizeof *pool);
        if (!pool) return NULL;
        for (int i = 0; i < POOL; i++) pool[i].next_free = free_nodes, free_nodes = &pool[i];
    }
    Node *node = free_nodes;
    free_nodes = node->next_free;
    *node = (Node){.op = -1, .count = 1};
    return node;
}

static void release(Node *node) {
    for (int i = 0; i < node->size; i++) release(node->body[i]);
    if (node->body) free(node->body), trace_bytes -= sizeof *node->body * (size_t)node->size;
    node->next_free = free_nodes, free_nodes = node;
}

/* Add the passes of one node to an equal one (Chan, Golub, LeVeque: parallel mean and sum of squares). */
static void merge(Node *into, Node *from) {
    for (int i = 0; i < into->size; i++) merge(into->body[i], from->body[i]);
    if (into->size) return;
    double a = (double)into->count, b = (double)from->count, apart = from->mean - into->mean;
    into->squares += from->squares + apart * apart * a * b / (a + b);
    into->mean += apart * b / (a + b);
    into->spent += from->spent;
    into->count += from->count;
    if (from->least < into->least) into->least = from->least;
    if (from->most > into->most) into->most = from->most;
}

static Hash hash_before(int at) {
    return at ? top[at - 1].before * BASE + top[at - 1].node->hash : 0;
}

static Hash span_hash(int from, int to) {
    for (; powers < to - from; powers++) power[powers + 1] = power[powers] * BASE;
    return hash_before(to) - hash_before(from) * power[to - from];
}

static int *heads_of(int *heads, Hash hash) { return &heads[hash % FOLD_BUCKETS]; }

static void push(Node *node) {
    if (top_size == top_room) {
        int room = top_room ? 2 * top_room : 1024;
        Place *more = realloc(top, sizeof *top * (size_t)room);
        if (!more) {
            trace_bytes = trace_budget + 1;
            release(node);
            return;
        }
        trace_bytes += sizeof *top * (size_t)(room - top_room);
        top = more, top_room = room;
    }
    int *same = heads_of(same_heads, node->hash);
    top[top_size] = (Place){node, hash_before(top_size), *same, 0};
    *same = ++top_size; /* heads and links count from 1, so that 0 is none */
    if (node->op < 0) {
        int *end = heads_of(end_heads, node->body[node->size - 1]->hash);
        top[top_size - 1].end = *end;
        *end = top_size;
    }
}

static Node *pop(void) {
    Place *last = &top[--top_size];
    *heads_of(same_heads, last->node->hash) = last->same;
    if (last->node->op < 0) *heads_of(end_heads, last->node->body[last->node->size - 1]->hash) = last->end;
    return last->node;
}

static void hash_loop(Node *loop) { loop->hash = mix(loop->body_hash ^ mix(loop->count)); }

static int another_pass(int at, int size) {
    Node *loop = top[at].node;
    if (loop->size != size || loop->body_hash != span_hash(at + 1, top_size)) return 0;
    for (int i = 0; i < size; i++)
        if (loop->body[i]->hash != top[at + 1 + i].node->hash) return 0;
    for (int i = size; i-- > 0;) {
        Node *gone = pop();
        merge(loop->body[i], gone);
        release(gone);
    }
    pop();
    loop->count++;
    hash_loop(loop);
    push(loop);
    return 1;
}

static int new_loop(int size) {
    int second = top_size - size, first = second - size, depth = 0;
    if (first < 0 || span_hash(first, second) != span_hash(second, top_size)) return 0;
    for (int i = 0; i < size; i++) {
        if (top[first + i].node->hash != top[second + i].node->hash) return 0;
        if (top[first + i].node->depth > depth) depth = top[first + i].node->depth;
    }
    Node *loop = depth < MOST_DEPTH ? new_node() : NULL;
    Node **body = loop ? trace_alloc(sizeof *body * (size_t)size) : NULL;
    if (!body) {
        if (loop) release(loop);
        return 0;
    }
    Hash hash = span_hash(first, second);
    for (int i = 0; i < size; i++) {
        body[i] = top[first + i].node;
        merge(body[i], top[second + i].node);
    }
    for (int i = 0; i < size; i++) release(pop());
    for (int i = 0; i < size; i++) pop();
    *loop = (Node){.op = -1, .count = 2, .depth = depth + 1, .size = size, .body = body, .body_hash = hash};
    hash_loop(loop);
    push(loop);
    return 1;
}

static int fold_once(void) {
    if (top_size < 2) return 0;
    const Hash hash = top[top_size - 1].node->hash;
    int tries = MOST_CANDIDATES;
    for (int at = *heads_of(end_heads, hash); at && tries-- > 0; at = top[at - 1].end) {
        int size = top_size - at;
        if (size > MOST_BODY) break;
        if (size && another_pass(at - 1, size)) return 1;
    }
    tries = MOST_CANDIDATES;
    for (int at = top[top_size - 1].same; at && tries-- > 0; at = top[at - 1].same) {
        int size = top_size - at;
        if (size > MOST_BODY) break;
        if (top[at - 1].node->hash == hash && new_loop(size)) return 1;
    }
    return 0;
}

/* Append an operation that happened after this much computing, and took this long. */
static void append(int op, double computed, double spent) {
    Node *node = new_node();
    if (!node) return;
    node->op = op, node->hash = mix((Hash)op + 1);
    node->mean = computed, node->spent = spent, node->least = node->most = (float)computed;
    push(node);
    while (fold_once()) {}
}
