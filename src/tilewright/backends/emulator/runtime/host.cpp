// The program that runs emulated kernels: reads a job from its working folder, performs its launches,
// writes the output and a report. Files: `job` (text, see run.py), `0`, `1`, ... (inputs), `output`,
// `report` (text).
#include "launch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "crash.h"

using namespace emu;

static int report = -1;

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
#include <stdarg.h>
static void put(const char *format, ...) {
    char text[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0) return;
    if (n >= (int)sizeof text) n = (int)sizeof text - 1;
    if (write(report, text, (size_t)n) != n) _exit(9);
}

void write_bug() {
    for (char *c = bug.message; *c; c++)
        if (*c == '\n') *c = ' ';
    put("bug %s %d\n", bug.kind, bug.line);
    if (bug.has_thread)
        put("thread %u %u %u %u %u %u\n", bug.block.x, bug.block.y, bug.block.z, bug.thread.x, bug.thread.y,
            bug.thread.z);
    for (int i = 0; i < bug.depth; i++) put("code %llx\n", (unsigned long long)bug.pc[i]);
    put("message %s\n", bug.message);
}

[[noreturn]] static void bad_job(const char *what) {
    fprintf(stderr, "emulator: bad job: %s\n", what);
    _exit(8);
}

static void read_file(const char *name, unsigned char *to, size_t size) {
    int fd = open(name, O_RDONLY);
    if (fd < 0) bad_job(name);
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, to + done, size - done);
        if (n <= 0) bad_job(name);
        done += (size_t)n;
    }
    close(fd);
}

static void write_file(const char *name, const unsigned char *from, size_t size) {
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) bad_job(name);
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, from + done, size - done);
        if (n <= 0) bad_job(name);
        done += (size_t)n;
    }
    close(fd);
}

constexpr int MOST = 64;
struct Tensor {
    size_t range;
    bool input;
};
static Tensor tensors[MOST];
static int tensor_count, input_count;
static size_t workspace_range;
static bool has_workspace;

static Place place_of(int i) {
    if (options.order == Order::fifo) return Place::right;
    if (options.order == Order::lifo) return Place::left;
    return (options.seed + (uint64_t)i) % 2 ? Place::right : Place::left;
}

static void perform(FILE *job) {
    char symbol[256];
    Index grid, block;
    size_t shared;
    int count;
    int early;
    if (fscanf(job, "%255s %u %u %u %u %u %u %zu %d %d", symbol, &grid.x, &grid.y, &grid.z, &block.x, &block.y,
               &block.z, &shared, &early, &count) != 10 || count > MOST)
        bad_job("launch");
    options.early = early != 0;
    static uint64_t values[MOST];
    static TensorMap maps[MOST];
    static void *parameters[MOST];
    const Entry *entry = find_entry(symbol);
    for (int i = 0; i < count; i++) {
        char kind[16];
        bool map = false;
        long long number = 0;
        double real = 0;
        if (fscanf(job, "%15s", kind) != 1) bad_job("parameter");
        if ((map = strcmp(kind, "tensor_map") == 0) && fscanf(job, "%15s", kind) != 1) bad_job("tensor map");
        const bool is_real = strncmp(kind, "float", 5) == 0;
        if (is_real ? fscanf(job, "%lf", &real) != 1 : fscanf(job, "%lld", &number) != 1) bad_job("parameter");
        unsigned size = 8;
        values[i] = 0;
        if (strcmp(kind, "tensor") == 0) {
            if (number < 0 || number >= tensor_count) bad_job("tensor");
            values[i] = (uintptr_t)ranges[tensors[number].range].base;
        } else if (strcmp(kind, "workspace") == 0) {
            values[i] = has_workspace ? (uintptr_t)ranges[workspace_range].base + (uint64_t)number : 0;
        } else if (strcmp(kind, "float32") == 0) {
            float f = (float)real;
            memcpy(&values[i], &f, size = 4);
        } else if (strcmp(kind, "float64") == 0) {
            memcpy(&values[i], &real, 8);
        } else {
            size = strcmp(kind, "int32") == 0 ? 4 : 8;
            values[i] = (uint64_t)number;
        }
        parameters[i] = &values[i];
        if (map) {
            unsigned char *to = reinterpret_cast<unsigned char *>(&maps[i]);
            for (size_t b = 0; b < sizeof(TensorMap); b++) {
                unsigned byte;
                if (fscanf(job, " %2x", &byte) != 1) bad_job("tensor map");
                to[b] = (unsigned char)byte;
            }
            if (values[i] % 16) {
                record("launch", 0, "%s: tensor map %d is of memory that is not aligned to 16 bytes", symbol, i);
                return;
            }
            maps[i].address = values[i];
            parameters[i] = to;
            size = sizeof(TensorMap);
        }
        if (entry && i < entry->parameters && entry->sizes[i] != size) {
            record("launch", 0, "%s: parameter %d has %u bytes in the kernel and %u in the launch", symbol, i,
                   (unsigned)entry->sizes[i], size);
            return;
        }
    }
    if (const char *why = refuse(entry, grid, block, shared, count)) {
        record("launch", 0, "%s: %s", symbol, why);
        return;
    }
    run_launch(*entry, grid, block, shared, parameters);
}

static void check_slack() {
    for (Range &r : ranges)
        if (r.writable && !slack_intact(r)) {
            record("out_of_bounds_global", 0, "bytes next to %s (%zu bytes) were written", r.name, r.size);
            return;
        }
}

int main() {
    FILE *job = fopen("job", "r");
    report = open("report", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!job || report < 0) bad_job("it cannot be opened");
    char word[32];
    double seconds = 0;
    while (fscanf(job, "%31s", word) == 1) {
        if (strcmp(word, "order") == 0) {
            int order, lazy, profile;
            unsigned long long seed;
            if (fscanf(job, "%d %llu %d %d", &order, &seed, &lazy, &profile) != 4) bad_job(word);
            options.order = order == 1 ? Order::lifo : order == 2 ? Order::random : Order::fifo;
            options.seed = seed;
            options.lazy = lazy != 0;
            options.profile = profile != 0;
        } else if (strcmp(word, "seconds") == 0) {
            double limit;
            if (fscanf(job, "%lf", &limit) != 1) bad_job(word);
            catch_crashes(limit);
        } else if (strcmp(word, "input") == 0 || strcmp(word, "output") == 0 || strcmp(word, "outputs") == 0) {
            // An output is one of several where the word is "outputs".
            const bool input = word[0] == 'i', several = strcmp(word, "outputs") == 0;
            size_t size, align;
            unsigned pattern;
            if (fscanf(job, "%zu %zu %u", &size, &align, &pattern) != 3 || tensor_count == MOST) bad_job(word);
            char name[32], file[16];
            const int number = input ? tensor_count : tensor_count - input_count;
            snprintf(name, sizeof name, input ? "input %d" : several ? "output number %d" : "the output", number);
            snprintf(file, sizeof file, "%d", tensor_count);
            Range &r = allocate(name, size, align, place_of(tensor_count));
            if (input) {
                read_file(file, r.base, size);
                protect_input(r);
                input_count++;
            } else {
                fill_words(r.base, size, pattern);
            }
            tensors[tensor_count++] = {ranges.size - 1, input};
        } else if (strcmp(word, "workspace") == 0) {
            size_t size, zero;
            if (fscanf(job, "%zu %zu", &size, &zero) != 2) bad_job(word);
            Range &r = allocate("the workspace", size, 256, place_of(tensor_count));
            fill_words(r.base, size, WORKSPACE_POISON);
            fill_words(r.base, zero, 0);
            workspace_range = ranges.size - 1;
            has_workspace = true;
        } else if (strcmp(word, "launch") == 0) {
            timespec a, b;
            clock_gettime(CLOCK_MONOTONIC, &a);
            perform(job);
            clock_gettime(CLOCK_MONOTONIC, &b);
            seconds += (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
            if (!failed) check_slack();
            if (failed) break;
        } else {
            bad_job(word);
        }
    }
    fclose(job);
    if (failed) write_bug();
    else
        for (int i = input_count; i < tensor_count; i++) {
            char file[16];
            snprintf(file, sizeof file, "output%d", i - input_count);
            const Range &r = ranges[tensors[i].range];
            write_file(file, r.base, r.size);
        }
    if (options.profile && !failed) profile_write(report);
    put("seconds %.9f\n", seconds);
    put("done\n");
    close(report);
    // Without the exit handlers of sanitizers, which look at fibers that are no more.
    fflush(nullptr);
    _exit(0);
}
