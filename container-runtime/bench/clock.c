/* Runs commands and measures each: wall time and peak memory of the child alone.
 *
 * Usage: clock ROUNDS < file with one command a line (words separated by tabs). All commands take turns in each round,
 * so that what else the machine does hits all alike. Prints one line a command: its peak memory in KiB, then the
 * microseconds of every round. A first word FROM=TO copies a file before each run, outside the measured time.
 * A small C program does this, because a child's peak memory counts its parent's at the time of the fork.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMANDS 32
#define WORDS 64
extern char **environ;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int split(char *line, char **words) {
    int n = 0;
    for (char *w = strtok(line, "\t\n"); w && n < WORDS - 1; w = strtok(NULL, "\t\n")) words[n++] = w;
    words[n] = NULL;
    return n;
}

static void copy(const char *pair) {
    char from[4096], buffer[65536];
    snprintf(from, sizeof from, "%s", pair);
    char *to = strchr(from, '=');
    *to++ = 0;
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ssize_t n;
    while ((n = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, n) != n) exit(2);
    close(in);
    close(out);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    int rounds = atoi(argv[1]), count = 0;
    static char lines[COMMANDS][8192];
    static char *words[COMMANDS][WORDS];
    static long peak[COMMANDS];
    while (count < COMMANDS && fgets(lines[count], sizeof lines[0], stdin)) {
        if (split(lines[count], words[count])) count++;
    }
    double *took = calloc((size_t)rounds * count, sizeof *took);
    for (int r = 0; r < rounds; r++) {
        for (int c = 0; c < count; c++) {
            char **command = words[c];
            if (strchr(command[0], '=')) copy(*command++);
            double start = now();
            pid_t pid = vfork();
            if (pid == 0) {
                execv(command[0], command);
                _exit(127);
            }
            int status;
            struct rusage usage;
            wait4(pid, &status, 0, &usage);
            took[(size_t)c * rounds + r] = now() - start;
            if (status != 0) {
                fprintf(stderr, "clock: %s failed with status %d\n", command[0], status);
                return 1;
            }
            if (usage.ru_maxrss > peak[c]) peak[c] = usage.ru_maxrss;
        }
    }
    for (int c = 0; c < count; c++) {
        printf("%ld", peak[c]);
        for (int r = 0; r < rounds; r++) printf(" %.0f", took[(size_t)c * rounds + r]);
        printf("\n");
    }
    return 0;
}
