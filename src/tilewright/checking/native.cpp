// Put behind a CPU kernel: a program that runs it once on tensors between bytes that the address sanitizer watches.
// Its folder: `job` (text), `0`, `1`, ... (inputs); it writes `output0`, ... and, as the emulator does, `report`.
#line 1 "host"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

namespace tw_host {
struct Tensor {
    unsigned char *at, *kept;
    unsigned long size;
    bool input;
};
static Tensor tensors[64];
static int inputs, outputs;

// The same lines that the emulator writes.
__attribute__((unused)) static void name_place(const void *p) {
    const unsigned char *at = (const unsigned char *)p;
    const Tensor *nearest = nullptr;
    long least = 1 << 16;
    for (int i = 0; i < inputs + outputs; i++) {
        const Tensor &t = tensors[i];
        const long away = at < t.at ? t.at - at : at < t.at + t.size ? 0 : at - t.at - (long)t.size;
        if (away < least) nearest = &t, least = away;
    }
    if (!nearest) return;
    const int n = (int)(nearest - tensors);
    char name[40];
    if (nearest->input) snprintf(name, sizeof name, "input %d", n);
    else snprintf(name, sizeof name, "output number %d", n - inputs);
    const long from = at - nearest->at;
    if (from < 0) fprintf(stderr, "emulator: place global %ld bytes before %s (%lu bytes)\n", -from, name, nearest->size);
    else if ((unsigned long)from >= nearest->size)
        fprintf(stderr, "emulator: place global %ld bytes past the end of %s (%lu bytes)\n", from - (long)nearest->size, name, nearest->size);
    else fprintf(stderr, "emulator: place global byte %ld of %s (%lu bytes)\n", from, name, nearest->size);
}

static long threads;
struct Share {  // of the tasks: every `threads`-th, so that each thread has some however fast the others are
    void (*body)(void *, long, long);
    void *context;
    long tasks, worker;
};
static void *work(void *given) {
    const Share *s = (const Share *)given;
    for (long t = s->worker; t < s->tasks; t += threads) s->body(s->context, t, s->worker);
    return nullptr;
}
static void parallel_for(void *, long tasks, void (*body)(void *, long, long), void *context) {
    pthread_t others[16];
    Share shares[16];
    for (long i = 0; i < threads; i++) shares[i] = {body, context, tasks, i};
    for (long i = 1; i < threads; i++) pthread_create(&others[i], nullptr, work, &shares[i]);
    work(&shares[0]);
    for (long i = 1; i < threads; i++) pthread_join(others[i], nullptr);
}
static void bad() {
    fprintf(stderr, "bad job\n");
    _exit(8);
}
}  // namespace tw_host

#if defined(__SANITIZE_ADDRESS__)
extern "C" {
void *__asan_get_report_address(void);
__attribute__((visibility("default"))) void __asan_on_error(void) { tw_host::name_place(__asan_get_report_address()); }
}
#endif
#if defined(__SANITIZE_THREAD__)
extern "C" {
int __tsan_get_report_mop(void *report, unsigned long i, int *tid, void **addr, int *size, int *write, int *atomic, void **trace, unsigned long trace_size);
__attribute__((visibility("default"))) void __tsan_on_report(void *report) {
    int tid, size, write, atomic;
    void *address = nullptr, *trace[1];
    if (__tsan_get_report_mop(report, 0, &tid, &address, &size, &write, &atomic, trace, 1)) tw_host::name_place(address);
}
}
#endif

__attribute__((visibility("default"))) int main() {
    using namespace tw_host;
    FILE *job = fopen("job", "r");
    char word[16];
    unsigned long size;
    unsigned pattern;
    if (!job || fscanf(job, "threads %ld", &threads) != 1) bad();
    while (fscanf(job, "%15s %lu %u", word, &size, &pattern) == 3) {
        Tensor t = {(unsigned char *)malloc(size ? size : 1), nullptr, size, word[0] == 'i'};
        if (t.input) {
            char name[16];
            snprintf(name, sizeof name, "%d", inputs);
            FILE *f = fopen(name, "rb");
            if (!f || fread(t.at, 1, size, f) != size) bad();
            fclose(f);
            t.kept = (unsigned char *)malloc(size ? size : 1);
            memcpy(t.kept, t.at, size);
            inputs++;
        } else {
            for (unsigned long i = 0; i < size; i++) t.at[i] = (unsigned char)(pattern >> (i % 2 * 8));
            outputs++;
        }
        tensors[inputs + outputs - 1] = t;
    }
    fclose(job);
    void *pointers[64];
    for (int i = 0; i < inputs + outputs; i++) pointers[i] = tensors[i].at;
    const tw_env env = {parallel_for, nullptr, threads};
    FILE *report = fopen("report", "w");
    if (!report) bad();
    timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    const int failed = TW_CHECKED(pointers, nullptr, nullptr, &env);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    // The emulator's reader keeps the last bug of a report: what was written is told before what was returned.
    if (failed) fprintf(report, "bug crash 0\nmessage the kernel returned %d\n", failed);
    for (int i = inputs - 1; i >= 0; i--)
        for (unsigned long b = 0; b < tensors[i].size; b++)
            if (tensors[i].at[b] != tensors[i].kept[b]) {
                fprintf(report, "bug out_of_bounds_global 0\nmessage wrote byte %lu of input %d (%lu bytes)\n", b, i, tensors[i].size);
                break;
            }
    const double seconds = (double)(ended.tv_sec - began.tv_sec) + 1e-9 * (double)(ended.tv_nsec - began.tv_nsec);
    fprintf(report, "seconds %.9f\ndone\n", seconds);
    for (int i = 0; i < outputs; i++) {
        char name[16];
        snprintf(name, sizeof name, "output%d", i);
        FILE *f = fopen(name, "wb");
        if (!f || fwrite(tensors[inputs + i].at, 1, tensors[inputs + i].size, f) != tensors[inputs + i].size) bad();
        fclose(f);
    }
    fflush(nullptr);
    _exit(failed ? 7 : 0);
}
