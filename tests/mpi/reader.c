/* Reads what shim.c reads, without MPI: lines "RANKS RANK PATH" in; out goes "yes", with what was read, or "no". */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim_trees.h"

static void tell(const Tree *tree) {
    printf(" %d %d %d %.0f %.0f :", tree->kind, tree->root, tree->members, tree->bytes, tree->segment_bytes);
    printf(" %d", tree->parent);
    for (int i = 0; i < tree->children; i++) printf(" %d", tree->child[i]);
    printf(" :");
    for (int i = 0; i < tree->size; i++) printf(" %d", tree->below[i]);
    printf(" ;");
}

int main(void) {
    static char path[4096];
    while (scanf("%d %d %4095s", &ranks, &me, path) == 3) {
        const char *wrong = read_trees(path);
        printf("%s", wrong ? "no" : "yes");
        for (int i = 0; !wrong && host_names && i < ranks; i++) printf(" %s", host_names + HOST_ROOM * i);
        free(host_names);
        host_names = NULL;
        for (int i = 0; i < tree_count; i++) {
            if (!wrong) tell(&trees[i]);
            free(trees[i].child);
        }
        printf(" %lx\n", checksum(path) & 1);
        fflush(stdout);
        free(trees);
        trees = NULL, tree_count = 0;
    }
    return 0;
}
