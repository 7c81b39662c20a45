/* Preloaded into a program: its clock is set by 10 s, forwards or backwards, every 0.3 s. Durations stay right. */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const long long STEP_NS = 10000000000LL, EVERY_NS = 300000000LL, SECOND_NS = 1000000000LL;

static long long read_ns(clockid_t clock) {
    struct timespec now;
    syscall(SYS_clock_gettime, clock, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static long long set_ns(clockid_t clock) {
    static const int steps[] = {0, 1, 0, -1};
    return read_ns(clock) + steps[read_ns(CLOCK_MONOTONIC) / EVERY_NS % 4] * STEP_NS;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return syscall(SYS_clock_gettime, clock, now);
    long long ns = set_ns(clock);
    now->tv_sec = ns / SECOND_NS;
    now->tv_nsec = ns % SECOND_NS;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    long long ns = set_ns(CLOCK_REALTIME);
    (void)zone;
    now->tv_sec = ns / SECOND_NS;
    now->tv_usec = ns % SECOND_NS / 1000;
    return 0;
}

time_t time(time_t *now) {
    time_t seconds = set_ns(CLOCK_REALTIME) / SECOND_NS;
    if (now != NULL)
        *now = seconds;
    return seconds;
}
