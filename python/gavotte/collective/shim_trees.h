/* The trees and rings of GAVOTTE_TREES: read and checked by each rank for itself; part of shim.c. */

enum { BROADCAST, REDUCE, SCATTER, GATHER, ALLGATHER, ALLREDUCE, OPERATIONS };
static const char *const NAMES[OPERATIONS] = {"broadcast", "reduce", "scatter", "gather", "allgather", "allreduce"};

/* An allgather or allreduce along two trees: the second follows the first, from the same root. */
enum { UP_OF_GATHER = OPERATIONS, DOWN_OF_GATHER, UP_OF_REDUCE, DOWN_OF_REDUCE, KINDS };
static const char *const PARTS[KINDS - OPERATIONS] = {"allgather-gather", "allgather-broadcast", "allreduce-reduce",
                                                      "allreduce-broadcast"};

/*
 * One tree as this rank sees it. `below` is this rank, then all below its first child, then all below its second.
 * Or a ring of `members`, the first of `below`, which then is all ranks by group: each member followed by those that hang
 * from it; group i starts at `at[i]`, and `place` is this rank's group. `children` are those that hang from this rank.
 * Or, with `library`, an operation of these bytes that is left to the MPI library, and nothing else.
 * Or, with `exchange`, a block from each rank straight to each other one (shim_exchange.h).
 * `me` and `ranks` are those of the communicator.
 */
typedef struct {
    int kind, root, parent, children, size, members, place, library, me, ranks;
    double bytes, segment_bytes;
    int *child, *at, *weight, *below;
    struct Edges *exchange;
} Tree;

static Tree *trees;
static int tree_count, ready, me, ranks;
static double min_bytes = 32768;

enum { HOST_ROOM = 64 };  /* of a name, its end included */
static char *host_names; /* of each rank, `HOST_ROOM` apart; NULL where the file names none */

static int walk(Tree *tree, const int *parent, const int *order, int rank, int count) {
    tree->below[count++] = rank;
    for (int i = 0; i < tree->ranks; i++)
        if (order[i] != rank && parent[order[i]] == rank) count = walk(tree, parent, order, order[i], count);
    return count;
}

static void grow_tree(Tree *tree, const int *parent, const int *order) {
    int me = tree->me;
    tree->parent = me == tree->root ? -1 : parent[me];
    tree->below[0] = me, tree->size = 1, tree->children = 0;
    for (int i = 0; i < tree->ranks; i++) {
        if (order[i] == me || parent[order[i]] != me) continue;
        int end = walk(tree, parent, order, order[i], tree->size), number = tree->children++;
        tree->child[number] = order[i], tree->at[number] = tree->size, tree->weight[number] = end - tree->size;
        tree->size = end;
    }
}

static void grow_ring(Tree *ring, const int *parent, const int *order) {
    int me = ring->me;
    ring->parent = -1, ring->children = 0, ring->size = 0;
    for (int i = 0; i < ring->members; i++) {
        ring->at[i] = ring->size, ring->below[ring->size++] = order[i];
        if (order[i] == me) ring->place = i;
        for (int j = ring->members; j < ring->ranks; j++) {
            if (parent[order[j]] != order[i]) continue;
            ring->below[ring->size++] = order[j];
            if (order[i] == me) ring->child[ring->children++] = order[j];
            if (order[j] == me) ring->place = i, ring->parent = order[i];
        }
    }
    ring->at[ring->members] = ring->size;
}

static int grow(Tree *tree, const int *parent, const int *order) {
    size_t ranks = (size_t)tree->ranks;
    tree->child = malloc(sizeof(int) * (4 * ranks + 1));
    if (!tree->child) return 0;
    tree->below = tree->child + ranks, tree->weight = tree->below + ranks, tree->at = tree->weight + ranks;
    if (tree->members) grow_ring(tree, parent, order);
    else grow_tree(tree, parent, order);
    return 1;
}

/* Whether parents come first, the root its own, and every rank once: anything else would never end. In a ring, whether each member but the
 * first has the one before for its parent, and each other rank a member. */
static int is_tree(const int *parent, const int *order, int members) {
    char *seen = calloc(ranks, 1);
    int fine = seen != NULL;
    for (int i = 0; fine && i < ranks; i++) {
        fine = !seen[order[i]] && (i == 0 ? parent[order[i]] == order[i] : seen[parent[order[i]]] == 1);
        if (fine && i > 0 && i < members) fine = parent[order[i]] == order[i - 1];
        if (fine) seen[order[i]] = members && i >= members ? 2 : 1;
    }
    free(seen);
    return fine;
}

/* ---- the text: words and whole numbers with single spaces between, and an end to every line ---- */

typedef struct {
    const char *at, *end;
} Text;

static int literal(Text *text, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length)) return 0;
    text->at += length;
    return 1;
}

static int number(Text *text, long long most, long long *value) {
    int digits = 0;
    for (*value = 0; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
        if (++digits > 16) return 0;
        *value = 10 * *value + (*text->at - '0');
    }
    return digits > 0 && *value <= most;
}

static int numbers(Text *text, int *list) {
    long long value;
    for (int i = 0; i < ranks; i++) {
        if (!number(text, ranks - 1, &value) || !literal(text, i + 1 < ranks ? " " : "\n")) return 0;
        list[i] = (int)value;
    }
    return 1;
}

static int is_of_a_name(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; }

/* The name of each rank's host. */
static int names(Text *text) {
    host_names = calloc(ranks, HOST_ROOM);
    if (!host_names) return 0;
    for (int i = 0; i < ranks; i++) {
        int length = 0;
        for (; text->at < text->end && is_of_a_name(*text->at); text->at++) {
            if (length == HOST_ROOM - 1) return 0;
            host_names[(size_t)HOST_ROOM * i + length++] = *text->at;
        }
        if (length == 0 || !literal(text, i + 1 < ranks ? " " : "\n")) return 0;
    }
    return 1;
}

static int read_kind(Text *text) {
    for (int kind = KINDS - 1; kind >= 0; kind--) {
        const char *start = text->at, *name = kind < OPERATIONS ? NAMES[kind] : PARTS[kind - OPERATIONS];
        if (literal(text, name) && literal(text, " ")) return kind;
        text->at = start;
    }
    return KINDS;
}

static int read_tree(Text *text, Tree *tree, int *lists) {
    const long long most_bytes = 1LL << 53;
    long long first, bytes, segment_bytes;
    tree->library = literal(text, "library ");
    tree->kind = read_kind(text);
    if (tree->library) {
        int fine = tree->kind < OPERATIONS && number(text, ranks - 1, &first) && literal(text, " ") &&
                   number(text, most_bytes, &bytes) && literal(text, "\n");
        if (fine) tree->root = (int)first, tree->bytes = (double)bytes;
        return fine;
    }
    int ring = tree->kind == ALLGATHER || tree->kind == ALLREDUCE;
    if (tree->kind == KINDS || !number(text, ring ? ranks : ranks - 1, &first) || !literal(text, " ") ||
        !number(text, most_bytes, &bytes) || !literal(text, " ") || !number(text, most_bytes, &segment_bytes) ||
        !literal(text, "\n") || !numbers(text, lists) || !numbers(text, lists + ranks) || (ring && first == 0))
        return 0;
    tree->members = ring ? (int)first : 0, tree->root = ring ? lists[ranks] : (int)first;
    tree->bytes = (double)bytes, tree->segment_bytes = (double)segment_bytes;
    tree->me = me, tree->ranks = ranks;
    return lists[ranks] == tree->root && is_tree(lists, lists + ranks, tree->members) &&
           grow(tree, lists, lists + ranks);
}

/* Whether a tree may come next: the second of two right after the first, and nothing else there. */
static int fits(const Tree *tree, const Tree *before) {
    int open = before && (before->kind == UP_OF_GATHER || before->kind == UP_OF_REDUCE);
    int closes = tree && (tree->kind == DOWN_OF_GATHER || tree->kind == DOWN_OF_REDUCE);
    if (!open || !closes) return open == closes;
    return tree->kind == before->kind + 1 && tree->root == before->root;
}

static const char *parse_trees(Text text) {
    long long there;
    if (!literal(&text, "gavotte/shim/1\nranks ") || !number(&text, INT_MAX, &there) || !literal(&text, "\n"))
        return "GAVOTTE_TREES is no shim file";
    if (there != ranks) return "GAVOTTE_TREES is for another number of ranks";
    int *lists = malloc(sizeof(int) * 2 * ranks), fine = lists != NULL;
    if (fine && literal(&text, "hosts ")) fine = names(&text);
    while (fine && text.at < text.end) {
        Tree tree = {0}, *more = realloc(trees, sizeof(Tree) * (tree_count + 1));
        if (more) trees = more;
        fine = more && read_tree(&text, &tree, lists) && fits(&tree, tree_count ? &trees[tree_count - 1] : NULL);
        if (fine) trees[tree_count++] = tree;
        else free(tree.child);
    }
    free(lists);
    fine = fine && fits(NULL, tree_count ? &trees[tree_count - 1] : NULL);
    return fine ? NULL : "GAVOTTE_TREES holds something that is no tree";
}

static const char *read_trees(const char *path) {
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file) return "GAVOTTE_TREES names no file that can be read";
    size_t room = 1 << 16, length = 0, got;
    char *text = malloc(room), *more = text;
    while (more && (got = fread(text + length, 1, room - length, file)) > 0) {
        length += got;
        if (length == room && (more = realloc(text, room * 2)) != NULL) text = more, room *= 2;
    }
    int failed = !more || ferror(file);
    fclose(file);
    const char *wrong = failed ? "GAVOTTE_TREES cannot be read" : parse_trees((Text){text, text + length});
    free(text);
    return wrong;
}

/* A sum over the file, so that ranks with unlike files notice. */
static unsigned long checksum(const char *path) {
    unsigned long sum = 14695981039346656037UL ^ (unsigned long)min_bytes;
    FILE *file = path ? fopen(path, "r") : NULL;
    for (int c; file && (c = fgetc(file)) != EOF;) sum = (sum ^ (unsigned long)c) * 1099511628211UL;
    if (file) fclose(file);
    return sum;
}
