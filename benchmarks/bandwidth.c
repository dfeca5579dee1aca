// How fast two threads read the same N megabytes over and over, in GB/s, one line per pass: the floor under
// a token, which reads each weight once. Small models may fit in the processor's cache, so the size matters.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS 2
#define PASSES 8

typedef uint64_t lanes __attribute__((vector_size(64)));

static unsigned char *memory;
static size_t share; // bytes of each thread
static volatile uint64_t sink;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static void *touch(void *part) {
    size_t start = (size_t)part * share;
    for (size_t i = start; i < start + share; i += 8) *(uint64_t *)(memory + i) = i;
    return NULL;
}

static void *scan(void *part) {
    const lanes *from = (const lanes *)(memory + (size_t)part * share), *end = from + share / sizeof(lanes);
    lanes a = {0}, b = {0}, c = {0}, d = {0};
    for (; from < end; from += 4) a += from[0], b += from[1], c += from[2], d += from[3];
    a += b + c + d;
    sink += a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
    return NULL;
}

static void on_every_thread(void *(*work)(void *)) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

int main(int count, char **arguments) {
    size_t megabytes = count > 1 ? strtoul(arguments[1], NULL, 10) : 1024;
    share = (megabytes << 20) / THREADS;
    memory = aligned_alloc(1 << 20, share * THREADS);
    if (!memory) return 1;
    on_every_thread(touch);
    for (int pass = 0; pass < PASSES; pass++) {
        double start = seconds();
        on_every_thread(scan);
        printf("%.2f\n", share * THREADS / (seconds() - start) / 1e9);
    }
    return 0;
}
