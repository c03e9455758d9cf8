// Faults of the machine beneath a process, as a library that is loaded in front of the C library (harness/preloaded.py).
//
// What it does is told by a shared file of six 64-bit numbers ($FAULTS_CONTROL), which may change at any time: a clock
// that is wrong, a disk that is full, a call on files that fails once or ends the process. Files outside $FAULTS_UNDER
// are left alone. Where $FAULTS_SYNCED names a folder, each file that is synced is copied there: what a power cut leaves.
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <ctime>
#include <unistd.h>

namespace {

struct Control {
    int64_t clock_ns;   // added to the time of day
    int64_t full;       // whether writes find no room
    int64_t fail_at;    // number of the call that fails; 0: none
    int64_t how;        // an errno, or one of How
    int64_t calls;      // counted so far
    int64_t failed;     // which Call failed
};
enum How : int64_t { SHORT = -1, KILL = -2, TORN = -3 };
enum Call : int64_t { WRITE = 1, SYNC, TRUNCATE, OPEN, RENAME, UNLINK };

Control *control = nullptr;
char under[4096], synced[4096];

__attribute__((constructor)) void begin() {
    const char *file = getenv("FAULTS_CONTROL"), *folder = getenv("FAULTS_UNDER"), *copies = getenv("FAULTS_SYNCED");
    if (!file) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return;
    void *at = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (at == MAP_FAILED) return;
    snprintf(under, sizeof under, "%s", folder ? folder : "");
    snprintf(synced, sizeof synced, "%s", copies ? copies : "");
    control = (Control *)at;
}

template <class F> F next(const char *name) { return (F)dlsym(RTLD_NEXT, name); }

bool ours(const char *path) {
    size_t n = strlen(under);
    return control && n && !strncmp(path, under, n);
}

// The path of an open file beneath the folder, or none.
bool ours(int fd, char (&path)[4096]) {
    if (!control || !*under) return false;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (n <= 0) return false;
    path[n] = 0;
    return ours(path);
}
bool ours(int fd) {
    char path[4096];
    return ours(fd, path);
}

// Counts a call; what is wrong with it, 0 if nothing.
int64_t wrong(Call call) {
    if (__atomic_add_fetch(&control->calls, 1, __ATOMIC_SEQ_CST) != control->fail_at) return 0;
    control->failed = call;
    if (control->how == KILL || (control->how == TORN && call != WRITE)) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    return control->how == SHORT && call != WRITE ? ENOSPC : control->how;
}

// Whether a call that moves no data fails, with errno set.
bool fails(Call call) {
    int64_t how = wrong(call);
    if (how > 0) errno = (int)how;
    return how > 0;
}

template <class Write> ssize_t writing(int fd, size_t n, Write write) {
    if (!ours(fd)) return write(n);
    int64_t how = wrong(WRITE);
    if (how == SHORT && n > 1) return write(n / 2);
    if (how == TORN) {
        write(n / 2);
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    if (how > 0 || control->full) {
        errno = how > 0 ? (int)how : ENOSPC;
        return -1;
    }
    return write(n);
}

// Where the copy of a file lies.
void copy_of(const char *path, char (&name)[8300]) {
    snprintf(name, sizeof name, "%s/", synced);
    size_t at = strlen(name);
    for (const char *c = path + strlen(under); *c && at < sizeof name - 1; c++) name[at++] = *c == '/' ? '%' : *c;
    name[at] = 0;
}

void keep(const char *path) {
    char lock[8300], name[8300], draft[8400];
    snprintf(lock, sizeof lock, "%s/.lock", synced);
    copy_of(path, name);
    snprintf(draft, sizeof draft, "%s.draft", name);
    int turn = (int)syscall(SYS_openat, AT_FDCWD, lock, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (turn < 0) return;
    syscall(SYS_flock, turn, LOCK_EX);
    int from = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    int to = (int)syscall(SYS_openat, AT_FDCWD, draft, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (from >= 0 && to >= 0) {
        static thread_local char buffer[1 << 16];
        for (;;) {
            long n = syscall(SYS_read, from, buffer, sizeof buffer);
            if (n <= 0 || syscall(SYS_write, to, buffer, n) != n) break;
        }
        syscall(SYS_renameat2, AT_FDCWD, draft, AT_FDCWD, name, 0);
    }
    if (from >= 0) syscall(SYS_close, from);
    if (to >= 0) syscall(SYS_close, to);
    syscall(SYS_close, turn);
}

template <class Sync> int syncing(int fd, Sync sync) {
    char path[4096];
    if (!ours(fd, path)) return sync(fd);
    if (fails(SYNC)) return -1;
    struct stat status;
    if (*synced && !fstat(fd, &status) && S_ISREG(status.st_mode)) {
        keep(path);
        return 0;  // the copy is the disk, so the real one need not be waited for
    }
    return sync(fd);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t id, struct timespec *t) {
    long done = syscall(SYS_clock_gettime, id, t);
    if (!done && control && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t ns = t->tv_sec * 1000000000LL + t->tv_nsec + control->clock_ns;
        t->tv_sec = ns / 1000000000LL;
        t->tv_nsec = ns % 1000000000LL;
    }
    return (int)done;
}
int gettimeofday(struct timeval *tv, void *) noexcept {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *to) noexcept {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (to) *to = t.tv_sec;
    return t.tv_sec;
}

ssize_t write(int fd, const void *p, size_t n) {
    return writing(fd, n, [=](size_t m) { return (ssize_t)syscall(SYS_write, fd, p, m); });
}
ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
    return writing(fd, n, [=](size_t m) { return (ssize_t)syscall(SYS_pwrite64, fd, p, m, at); });
}
ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at) { return pwrite(fd, p, n, at); }
ssize_t writev(int fd, const struct iovec *v, int n) {
    static auto real = next<ssize_t (*)(int, const struct iovec *, int)>("writev");
    return writing(fd, 1, [=](size_t) { return real(fd, v, n); });
}

int fsync(int fd) {
    return syncing(fd, [](int f) { return (int)syscall(SYS_fsync, f); });
}
int fdatasync(int fd) {
    return syncing(fd, [](int f) { return (int)syscall(SYS_fdatasync, f); });
}
int ftruncate(int fd, off_t n) noexcept {
    if (ours(fd) && fails(TRUNCATE)) return -1;
    return (int)syscall(SYS_ftruncate, fd, n);
}
int ftruncate64(int fd, off64_t n) noexcept { return ftruncate(fd, n); }

static int opening(int folder, const char *path, int flags, mode_t mode) {
    if (ours(path) && fails(OPEN)) return -1;
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}
#define MODE                                    \
    mode_t mode = 0;                            \
    if (flags & (O_CREAT | __O_TMPFILE)) {      \
        va_list more;                           \
        va_start(more, flags);                  \
        mode = (mode_t)va_arg(more, int);       \
        va_end(more);                           \
    }
int open(const char *path, int flags, ...) {
    MODE return opening(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE return opening(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
    MODE return opening(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
    MODE return opening(folder, path, flags, mode);
}

// Names are on the disk at once: a copy goes where its file goes.
int rename(const char *from, const char *to) noexcept {
    if (ours(to) && fails(RENAME)) return -1;
    long done = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (!done && *synced && ours(from) && ours(to)) {
        char before[8300], after[8300];
        copy_of(from, before);
        copy_of(to, after);
        syscall(SYS_renameat2, AT_FDCWD, before, AT_FDCWD, after, 0);
    }
    return (int)done;
}
int unlink(const char *path) noexcept {
    if (ours(path) && fails(UNLINK)) return -1;
    long done = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (!done && *synced && ours(path)) {
        char copy[8300];
        copy_of(path, copy);
        int kept = errno;
        syscall(SYS_unlinkat, AT_FDCWD, copy, 0);
        errno = kept;
    }
    return (int)done;
}

}  // extern "C"
