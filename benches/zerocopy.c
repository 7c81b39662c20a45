/*
 * Sends and receives TCP streams by one of several system calls, and counts bytes and processor time.
 *
 *   zerocopy receive PORT CONNECTIONS read|discard|splice
 *   zerocopy send ADDRESS PORT CONNECTIONS SECONDS write|zerocopy|file|sendfile FILE
 *
 * The receiver prints "ready", then bytes, seconds from the first to the last byte, and processor seconds. The sender
 * prints bytes, processor seconds, sends whose bytes the kernel did not copy, and sends whose bytes it copied after all.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* As in the agent: bytes of a write, of a read that copies, and of one that discards. */
enum { WRITE_BYTES = 256 << 10, READ_BYTES = 128 << 10, GULP_BYTES = 1 << 20, MOST = 64 };

static char block[WRITE_BYTES];
static long long uncopied, copied;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double processor_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static int busy(void) { return errno == EAGAIN || errno == EINTR; }

static struct sockaddr_in address(const char *text, const char *port) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    if (inet_pton(AF_INET, text, &in.sin_addr) != 1) {
        errno = EINVAL;
        die(text);
    }
    return in;
}

static void receive(const char *port, int count, const char *how) {
    struct sockaddr_in in = address("0.0.0.0", port);
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1, pipes[2], nowhere = open("/dev/null", O_WRONLY);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&in, sizeof in) || listen(listener, count) || pipe(pipes) || nowhere < 0) {
        die("listen");
    }
    fcntl(pipes[1], F_SETPIPE_SZ, GULP_BYTES);
    puts("ready");
    fflush(stdout);
    struct pollfd ends[MOST];
    for (int i = 0; i < count; i++) {
        ends[i] = (struct pollfd){.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), .events = POLLIN};
        if (ends[i].fd < 0) {
            die("accept");
        }
    }
    long long bytes = 0;
    double first_s = 0, last_s = 0, used_s = processor_s();
    for (int left = count; left > 0;) {
        if (poll(ends, (nfds_t)count, 20000) <= 0) {
            die("poll");
        }
        for (int i = 0; i < count; i++) {
            if (!ends[i].revents) {
                continue;
            }
            ssize_t got;
            if (!strcmp(how, "read")) {
                got = read(ends[i].fd, block, READ_BYTES);
            } else if (!strcmp(how, "discard")) {
                got = recv(ends[i].fd, NULL, GULP_BYTES, MSG_TRUNC);
            } else {
                got = splice(ends[i].fd, NULL, pipes[1], NULL, GULP_BYTES, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
                for (ssize_t out = 0; out < got;) {
                    ssize_t gone = splice(pipes[0], NULL, nowhere, NULL, (size_t)(got - out), SPLICE_F_MOVE);
                    if (gone <= 0) {
                        die("splice");
                    }
                    out += gone;
                }
            }
            if (got < 0 && !busy()) {
                die("receive");
            }
            if (got == 0) {
                close(ends[i].fd);
                ends[i].fd = -1;
                left--;
            } else if (got > 0) {
                last_s = now_s();
                first_s = first_s > 0 ? first_s : last_s;
                bytes += got;
            }
        }
    }
    printf("%lld %.6f %.6f\n", bytes, last_s - first_s, processor_s() - used_s);
}

/* Reads the notices about sends without a copy: each covers a range of sends. */
static void reap(int fd) {
    for (;;) {
        char control[256];
        struct msghdr notice = {.msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(fd, &notice, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
            return;
        }
        for (struct cmsghdr *part = CMSG_FIRSTHDR(&notice); part; part = CMSG_NXTHDR(&notice, part)) {
            struct sock_extended_err *error = (struct sock_extended_err *)CMSG_DATA(part);
            if (error->ee_origin == SO_EE_ORIGIN_ZEROCOPY) {
                long long sends = (long long)(error->ee_data - error->ee_info) + 1;
                *(error->ee_code & SO_EE_CODE_ZEROCOPY_COPIED ? &copied : &uncopied) += sends;
            }
        }
    }
}

static void sending(char **arguments) {
    struct sockaddr_in to = address(arguments[0], arguments[1]);
    int count = atoi(arguments[2]), yes = 1, file = open(arguments[5], O_RDONLY);
    double seconds = atof(arguments[3]);
    const char *how = arguments[4];
    struct stat known;
    if (file < 0 || fstat(file, &known)) {
        die(arguments[5]);
    }
    struct pollfd ends[MOST];
    off_t at[MOST] = {0};
    for (int i = 0; i < count; i++) {
        ends[i] = (struct pollfd){.fd = socket(AF_INET, SOCK_STREAM, 0), .events = POLLOUT};
        if (connect(ends[i].fd, (struct sockaddr *)&to, sizeof to)) {
            die("connect");
        }
        if (!strcmp(how, "zerocopy") && setsockopt(ends[i].fd, SOL_SOCKET, SO_ZEROCOPY, &yes, sizeof yes)) {
            die("SO_ZEROCOPY");
        }
        fcntl(ends[i].fd, F_SETFL, O_NONBLOCK);
    }
    long long bytes = 0;
    double used_s = processor_s(), until_s = now_s() + seconds;
    while (now_s() < until_s) {
        if (poll(ends, (nfds_t)count, 1000) < 0) {
            die("poll");
        }
        for (int i = 0; i < count; i++) {
            int fd = ends[i].fd;
            ssize_t sent;
            if (ends[i].revents & POLLERR) {
                reap(fd);
            }
            if (!(ends[i].revents & POLLOUT)) {
                continue;
            }
            if (at[i] >= known.st_size) {
                at[i] = 0;
            }
            if (!strcmp(how, "sendfile")) {
                sent = sendfile(fd, file, &at[i], WRITE_BYTES);
            } else if (!strcmp(how, "zerocopy")) {
                sent = send(fd, block, WRITE_BYTES, MSG_ZEROCOPY);
                if (sent < 0 && errno == ENOBUFS) {
                    reap(fd);
                    continue;
                }
            } else if (!strcmp(how, "file")) {
                ssize_t there = pread(file, block, WRITE_BYTES, at[i]);
                sent = there > 0 ? write(fd, block, (size_t)there) : there;
                at[i] += sent > 0 ? sent : 0;
            } else {
                sent = write(fd, block, WRITE_BYTES);
            }
            if (sent < 0 && !busy()) {
                die("send");
            }
            bytes += sent > 0 ? sent : 0;
        }
    }
    for (int i = 0; i < count; i++) {
        shutdown(ends[i].fd, SHUT_WR);
        reap(ends[i].fd);
    }
    used_s = processor_s() - used_s;
    printf("%lld %.6f %lld %lld\n", bytes, used_s, uncopied, copied);
}

int main(int argc, char **argv) {
    int enough = argc > 1 && !strcmp(argv[1], "receive") ? argc == 5 : argc == 8;
    int count = enough ? atoi(argv[argc == 5 ? 3 : 4]) : 0;
    if (count < 1 || count > MOST) {
        fputs("zerocopy receive PORT CONNECTIONS HOW | send ADDRESS PORT CONNECTIONS SECONDS HOW FILE\n", stderr);
        return 2;
    }
    if (argc == 5) {
        receive(argv[2], count, argv[4]);
    } else {
        sending(argv + 2);
    }
    return 0;
}
