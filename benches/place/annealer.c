/*
 * A plain annealer as a peer: random relocations and swaps of single tasks, cooled geometrically, for a given processor time.
 *
 * Cost is the longest time of a link, with a little of the root mean square of all. It knows nothing of bottlenecks.
 * Input: whitespace-separated numbers on stdin, as `peers.py` writes them. Output: seconds, steps, and the host of each task.
 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t state;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double uniform(void) { return (double)(next() >> 11) / 9007199254740992.0; }

static int below(int count) { return (int)(next() % (uint64_t)count); }

/* Processor time: a busy machine takes nothing from it. */
static double now_s(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static int tasks, hosts, links, edges;
static double *need, *have, *per_byte_s, *load, *bytes;
static int *first, *list;      /* links of the pair (m, n): list[first[m * hosts + n]] to the next pair's first */
static int *start, *other, *way; /* partners of each task; way: whether the task sends */
static int *host_of;
static double squares;

static void move_bytes(int m, int n, double size) {
    for (int at = first[m * hosts + n]; at < first[m * hosts + n + 1]; at++) {
        int link = list[at];
        double before = load[link];
        load[link] += size * per_byte_s[link];
        squares += load[link] * load[link] - before * before;
    }
}

static void place(int task, int to) {
    int from = host_of[task];
    for (int at = start[task]; at < start[task + 1]; at++) {
        int there = host_of[other[at]];
        if (there != from) way[at] ? move_bytes(from, there, -bytes[at]) : move_bytes(there, from, -bytes[at]);
        if (there != to) way[at] ? move_bytes(to, there, bytes[at]) : move_bytes(there, to, bytes[at]);
    }
    host_of[task] = to;
    have[from] += need[task];
    have[to] -= need[task];
}

static double longest(void) {
    double most = 0;
    for (int link = 0; link < links; link++)
        if (load[link] > most) most = load[link];
    return most;
}

static double cost(double most) { return most + 0.1 * sqrt(fmax(squares, 0) / (links ? links : 1)); }

static int whole(void) {
    long value;
    if (scanf("%ld", &value) != 1) exit(2);
    return (int)value;
}

static double number(void) {
    double value;
    if (scanf("%lf", &value) != 1) exit(2);
    return value;
}

int main(void) {
    state = (uint64_t)whole() * 0x9E3779B97F4A7C15u + 0x1234567u;
    double limit_s = number();
    tasks = whole(), hosts = whole(), links = whole(), edges = whole();
    need = calloc((size_t)tasks, 8), have = calloc((size_t)hosts, 8);
    per_byte_s = calloc((size_t)links + 1, 8), load = calloc((size_t)links + 1, 8), bytes = calloc(2 * (size_t)edges + 1, 8);
    first = calloc((size_t)hosts * (size_t)hosts + 1, 4), start = calloc((size_t)tasks + 1, 4);
    other = calloc(2 * (size_t)edges + 1, 4), way = calloc(2 * (size_t)edges + 1, 4), host_of = calloc((size_t)tasks, 4);
    for (int task = 0; task < tasks; task++) need[task] = number();
    for (int host = 0; host < hosts; host++) have[host] = number();
    for (int link = 0; link < links; link++) per_byte_s[link] = 8 / number();
    for (int pair = 0; pair < hosts * hosts; pair++) first[pair + 1] = first[pair] + whole();
    list = calloc((size_t)first[hosts * hosts] + 1, 4);
    for (int at = 0; at < first[hosts * hosts]; at++) list[at] = whole();
    int *ends = calloc(2 * (size_t)edges + 1, 4);
    double *sizes = calloc((size_t)edges + 1, 8);
    for (int edge = 0; edge < edges; edge++) {
        ends[2 * edge] = whole(), ends[2 * edge + 1] = whole(), sizes[edge] = number();
        start[ends[2 * edge] + 1]++, start[ends[2 * edge + 1] + 1]++;
    }
    for (int task = 0; task < tasks; task++) start[task + 1] += start[task];
    int *filled = calloc((size_t)tasks, 4);
    for (int edge = 0; edge < edges; edge++)
        for (int end = 0; end < 2; end++) {
            int task = ends[2 * edge + end], at = start[task] + filled[task]++;
            other[at] = ends[2 * edge + 1 - end], way[at] = end == 0, bytes[at] = sizes[edge];
        }
    for (int task = 0; task < tasks; task++) { /* first fit, as tasks of these instances all need the same */
        int host = 0;
        while (host < hosts && have[host] < need[task] - 1e-9) host++;
        if (host == hosts) return 1;
        host_of[task] = host;
        have[host] -= need[task];
    }
    for (int edge = 0; edge < edges; edge++) {
        int m = host_of[ends[2 * edge]], n = host_of[ends[2 * edge + 1]];
        if (m != n) move_bytes(m, n, sizes[edge]);
    }
    int *best = calloc((size_t)tasks, 4);
    memcpy(best, host_of, (size_t)tasks * 4);
    double begin_s = now_s(), best_s = longest(), here = cost(best_s), hot = 0.3 * here, heat = hot;
    long steps = 0;
    for (;; steps++) {
        if (steps % 512 == 0) {
            double part = (now_s() - begin_s) / limit_s;
            if (part >= 1) break;
            heat = hot * pow(1e-5, part);
        }
        int one = below(tasks), a = host_of[one], two = -1, b;
        if (uniform() < 0.5) {
            b = below(hosts);
            if (a == b || have[b] < need[one] - 1e-9) continue;
        } else {
            two = below(tasks), b = host_of[two];
            if (a == b || have[b] + need[two] < need[one] - 1e-9 || have[a] + need[one] < need[two] - 1e-9) continue;
        }
        place(one, b);
        if (two >= 0) place(two, a);
        double most = longest(), there = cost(most);
        if (there <= here || uniform() < exp((here - there) / heat)) {
            here = there;
            if (most < best_s) {
                best_s = most;
                memcpy(best, host_of, (size_t)tasks * 4);
            }
        } else {
            if (two >= 0) place(two, b);
            place(one, a);
        }
    }
    printf("%.9g %ld", best_s, steps);
    for (int task = 0; task < tasks; task++) printf(" %d", best[task]);
    printf("\n");
    return 0;
}
