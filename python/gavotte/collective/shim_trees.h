/* The trees of GAVOTTE_TREES: read and checked by each rank for itself; part of shim.c. */

/* One tree as this rank sees it. `below` is this rank, then all below its first child, then all below its second. */
typedef struct {
    int operation, root, parent, children, size;
    double bytes, segment_bytes;
    int *child, *at, *weight, *below;
} Tree;

static Tree *trees;
static int tree_count, ready, me, ranks;
static double min_bytes = 32768;
static int walk(const int *parent, const int *order, int rank, int *below, int count) {
    below[count++] = rank;
    for (int i = 0; i < ranks; i++)
        if (order[i] != rank && parent[order[i]] == rank) count = walk(parent, order, order[i], below, count);
    return count;
}

static int grow(Tree *tree, int *parent, int *order) {
    tree->child = malloc(sizeof(int) * 4 * ranks);
    if (!tree->child) return 0;
    tree->at = tree->child + ranks, tree->weight = tree->at + ranks, tree->below = tree->weight + ranks;
    tree->parent = me == tree->root ? -1 : parent[me];
    tree->below[0] = me, tree->size = 1, tree->children = 0;
    for (int i = 0; i < ranks; i++) {
        if (order[i] == me || parent[order[i]] != me) continue;
        int end = walk(parent, order, order[i], tree->below, tree->size), number = tree->children++;
        tree->child[number] = order[i], tree->at[number] = tree->size, tree->weight[number] = end - tree->size;
        tree->size = end;
    }
    return 1;
}

/* Whether parents come first and every rank once: anything else would never end. */
static int is_tree(const int *parent, const int *order, int root) {
    char *seen = calloc(ranks, 1);
    int fine = seen && order[0] == root;
    for (int i = 0; fine && i < ranks; i++) {
        fine = order[i] >= 0 && order[i] < ranks && !seen[order[i]];
        if (fine && i > 0) fine = parent[order[i]] >= 0 && parent[order[i]] < ranks && seen[parent[order[i]]];
        if (fine) seen[order[i]] = 1;
    }
    free(seen);
    return fine;
}

static int read_list(FILE *file, int *list) {
    for (int i = 0; i < ranks; i++)
        if (fscanf(file, "%d", &list[i]) != 1) return 0;
    return 1;
}

static const char *read_trees(const char *path) {
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return "GAVOTTE_TREES names no file that can be read";
    char word[32];
    int there = 0, *lists = malloc(sizeof(int) * 2 * ranks);
    const char *wrong = NULL;
    if (!lists || fscanf(file, "gavotte/shim/1 ranks %d", &there) != 1) wrong = "GAVOTTE_TREES is no shim file";
    else if (there != ranks) wrong = "GAVOTTE_TREES is for another number of ranks";
    while (!wrong) {
        Tree tree = {0};
        int found = fscanf(file, "%31s %d %lf %lf", word, &tree.root, &tree.bytes, &tree.segment_bytes);
        if (found == EOF) break;
        for (tree.operation = 0; tree.operation < OPERATIONS; tree.operation++)
            if (!strcmp(word, NAMES[tree.operation])) break;
        Tree *more = realloc(trees, sizeof(Tree) * (tree_count + 1));
        if (more) trees = more;
        if (!more || found != 4 || tree.operation == OPERATIONS || !read_list(file, lists) ||
            !read_list(file, lists + ranks) || !is_tree(lists, lists + ranks, tree.root) ||
            !grow(&tree, lists, lists + ranks))
            wrong = "GAVOTTE_TREES holds something that is no tree";
        else trees[tree_count++] = tree;
    }
    free(lists);
    fclose(file);
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

