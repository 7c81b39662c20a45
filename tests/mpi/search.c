/* Plans trees and rings as the preloaded library does, without MPI.
 *
 * Lines "RANKS ROOT BYTES LATENCY_NS", then RANKS x RANKS times of a byte in ps; out go a tree, a chain, a ring that collects and one that
 * combines: "SECONDS PIECES_OR_MEMBERS : PARENT... : ORDER...", and the seconds of MPICH's binomial tree. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *room(size_t bytes) { return malloc(bytes); }

#include "shim_search.h"

static void show(double seconds, int number, const int *parent, const int *order, int n) {
    printf("%.9g %d", seconds, number);
    for (int i = 0; i < n; i++) printf(" %d", parent[i]);
    for (int i = 0; i < n; i++) printf(" %d", order[i]);
    printf("\n");
}

int main(void) {
    int n, root;
    double bytes, latency;
    while (scanf("%d %d %lf %lf", &n, &root, &bytes, &latency) == 4) {
        double *edges = malloc(sizeof *edges * n * n), *work = malloc(sizeof *work * 4 * n), seconds;
        int *parent = malloc(sizeof *parent * 2 * n), *order = parent + n, number;
        for (int i = 0; i < n * n; i++) {
            if (scanf("%lf", &edges[i]) != 1) return 1;
            edges[i] *= 1e-12;
        }
        Links links = {.ranks = n, .latency = latency * 1e-9, .per_byte = edges};
        drawn_state = 88172645463325252ULL;
        for (int chain = 0; chain < 2; chain++) {
            seconds = find_tree(&links, root, bytes, chain, parent, order, &number);
            show(seconds, number, parent, order, n);
        }
        for (int sums = 0; sums < 2; sums++) {
            seconds = find_ring(&links, bytes, sums, parent, order, &number);
            show(seconds, number, parent, order, n);
        }
        Shape binomial = {n, 1, parent, order};
        for (int i = 0; i < n; i++) binomial.rank[i] = (i + root) % n, binomial.up[i] = i & (i - 1);
        printf("%.9g\n", tree_seconds(&links, &binomial, bytes, work));
        fflush(stdout);
        free(edges), free(work), free(parent);
    }
    return 0;
}
