/*
 * Lets Open MPI's ranks in a lab sleep while they wait.
 *
 * MPI libraries poll for messages without end, because a rank has a core of its own on a cluster. In a lab a dozen and more ranks
 * share two cores, and 24 polling ranks leave the network no idle time. Loaded before an MPI library, this makes every
 * rank that polls and finds nothing sleep, for any algorithm: first briefly, then twice as long each time.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <time.h>

/* The longest is 2 kB at 30 Mbit/s. */
enum { LEAST_NS = 10000, MOST_NS = 500000 };

static __thread long idle_ns = LEAST_NS;

static int polled(int found, int timeout_ms) {
    if (found != 0) {
        idle_ns = LEAST_NS;
    } else if (timeout_ms == 0) {
        nanosleep(&(struct timespec){.tv_nsec = idle_ns}, NULL);
        idle_ns = 2 * idle_ns < MOST_NS ? 2 * idle_ns : MOST_NS;
    }
    return found;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms) {
    static int (*real)(int, struct epoll_event *, int, int);
    if (real == NULL)
        real = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    return polled(real(epoll, events, most, timeout_ms), timeout_ms);
}

int poll(struct pollfd *files, nfds_t count, int timeout_ms) {
    static int (*real)(struct pollfd *, nfds_t, int);
    if (real == NULL)
        real = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
    return polled(real(files, count, timeout_ms), timeout_ms);
}
