/* Plays what rank 0 decides, without other ranks.
 *
 * A line "OPERATIONS LIBRARY EXCHANGE TREE CHAIN NOISE CHANGE_AT FACTOR" has the seconds of each way, and the share by which they scatter.
 * From operation CHANGE_AT on, the way that was kept then takes FACTOR times as long. The answer has the mean seconds of all
 * operations, those of the last half, and the way that is kept. */
#include "shim.c"

static double cost_of(const Way *way, const double *costs) {
    if (!strcmp(way->name, "exchange")) return costs[1];
    return !strcmp(way->name, "tree") ? costs[2] : !strcmp(way->name, "chain") ? costs[3] : costs[0];
}

int main(void) {
    enum { RANKS = 8 };
    double costs[4], noise, factor;
    long operations, change;
    while (scanf("%ld %lf %lf %lf %lf %lf %ld %lf", &operations, &costs[0], &costs[1], &costs[2], &costs[3], &noise, &change,
                 &factor) == 8) {
        Group group = {.ranks = RANKS};
        double seconds[2 * RANKS], matrix[2 * RANKS * RANKS], sum = 0, late = 0;
        for (int i = 0; i < 2 * RANKS * RANKS; i++) matrix[i] = i / RANKS % 2 ? 1 : costs[0] / 1e8;
        group.edges.seconds = seconds, group.matrix = matrix;
        forget_edges(&group);
        group.edges.latency = 0;
        Class *class = class_of(&group, &(Call){.operation = BROADCAST}, 1e6);
        const char *slowed = NULL;
        for (long i = 0; i < operations; i++) {
            class->bytes = 1e6;
            int quiet = is_quiet(&group, class);
            const Way *way = &class->ways[quiet ? class->kept : class->agenda[class->at]];
            if (i == change) slowed = class->ways[class->kept].name;
            double cost = cost_of(way, costs) * (1 + noise * (draw(2001) - 1000) / 1000);
            if (slowed && !strcmp(slowed, way->name)) cost *= factor;
            sum += cost, late += i >= operations / 2 ? cost : 0;
            if (quiet) continue;
            class->times[class->at++] = cost / class->bytes;
            if (class->at < class->agenda_count) continue;
            unsigned long long state = drawn_state;
            int head[HEAD], ways[2 * (WAY_HEAD + 4 * RANKS)];
            decide(&group, class, class->times, head, ways);
            follow(&group, class, head, ways);
            group.edges.latency = 0;
            for (int j = 0; head[RESTART] && j < 2 * RANKS * RANKS; j++) matrix[j] = j / RANKS % 2 ? 1 : costs[0] / 1e8;
            drawn_state = state ? state : 1;
        }
        printf("%.9g %.9g %s\n", sum / operations, late / (operations - operations / 2), class->ways[class->kept].name);
        fflush(stdout);
        forget_planned(class), free(class);
    }
    return 0;
}
