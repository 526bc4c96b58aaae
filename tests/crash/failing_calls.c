/* Loaded before everything else, this counts the calls by which a process changes or reads files under one folder, and
   at one of them kills the process or lets the call fail. SQLite's calls are counted like everybody's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define KILL (-1)
#define FDS 4096

static char home[4096];
static size_t home_length;
static atomic_long calls;
static long at;  /* the call to be hit; 0 for none */
static int how;  /* KILL, or an errno */
static char inside[FDS];

void faults_arm(const char *folder, long number, int kind) {
    strncpy(home, folder, sizeof home - 1);
    home_length = strlen(home);
    how = kind;
    at = number;
    atomic_store(&calls, 0);
}

long faults_calls(void) { return atomic_load(&calls); }

static int is_here(int dir, const char *path) {
    if (path[0] == '/') return home_length && strncmp(path, home, home_length) == 0;
    return dir >= 0 && dir < FDS && inside[dir];
}

static int is_open(int fd) { return home_length && fd >= 0 && fd < FDS && inside[fd]; }

/* Is this the call? A killed process does not come back from here, unless it is to leave half a write behind. */
static int hit(int half) {
    if (!home_length || atomic_fetch_add(&calls, 1) + 1 != at) return 0;
    if (how == KILL) {
        if (half) return KILL;
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    errno = how;
    return 1;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define OPENING(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, #name, const char *, int, ...); \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        int here = is_here(-1, path); \
        if (here && (how != KILL || flags & (O_CREAT | O_TRUNC)) && hit(0)) return -1; \
        int fd = real(path, flags, mode); \
        if (fd >= 0 && fd < FDS) inside[fd] = here; \
        return fd; \
    }
OPENING(open)
OPENING(open64)

#define OPENING_AT(name) \
    int name(int dir, const char *path, int flags, ...) { \
        REAL(int, #name, int, const char *, int, ...); \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        int here = is_here(dir, path); \
        if (here && (how != KILL || flags & (O_CREAT | O_TRUNC)) && hit(0)) return -1; \
        int fd = real(dir, path, flags, mode); \
        if (fd >= 0 && fd < FDS) inside[fd] = here; \
        return fd; \
    }
OPENING_AT(openat)
OPENING_AT(openat64)

int close(int fd) {
    REAL(int, "close", int);
    if (fd >= 0 && fd < FDS) inside[fd] = 0;
    return real(fd);
}

static ssize_t killed_half_way(ssize_t written) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
    return written;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    int found = is_open(fd) ? hit(1) : 0;
    if (found == KILL) return killed_half_way(real(fd, data, size / 2));
    return found ? -1 : real(fd, data, size);
}

#define PWRITING(name) \
    ssize_t name(int fd, const void *data, size_t size, off_t where) { \
        REAL(ssize_t, #name, int, const void *, size_t, off_t); \
        int found = is_open(fd) ? hit(1) : 0; \
        if (found == KILL) return killed_half_way(real(fd, data, size / 2, where)); \
        return found ? -1 : real(fd, data, size, where); \
    }
PWRITING(pwrite)
PWRITING(pwrite64)

ssize_t read(int fd, void *data, size_t size) {
    REAL(ssize_t, "read", int, void *, size_t);
    return how != KILL && is_open(fd) && hit(0) ? -1 : real(fd, data, size);
}

#define PREADING(name) \
    ssize_t name(int fd, void *data, size_t size, off_t where) { \
        REAL(ssize_t, #name, int, void *, size_t, off_t); \
        return how != KILL && is_open(fd) && hit(0) ? -1 : real(fd, data, size, where); \
    }
PREADING(pread)
PREADING(pread64)

#define ON_FD(name) \
    int name(int fd) { \
        REAL(int, #name, int); \
        return is_open(fd) && hit(0) ? -1 : real(fd); \
    }
ON_FD(fsync)
ON_FD(fdatasync)

#define CUTTING(name) \
    int name(int fd, off_t size) { \
        REAL(int, #name, int, off_t); \
        return is_open(fd) && hit(0) ? -1 : real(fd, size); \
    }
CUTTING(ftruncate)
CUTTING(ftruncate64)

#define ON_PATH(name) \
    int name(const char *path) { \
        REAL(int, #name, const char *); \
        return is_here(-1, path) && hit(0) ? -1 : real(path); \
    }
ON_PATH(unlink)
ON_PATH(rmdir)

int unlinkat(int dir, const char *path, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    return is_here(dir, path) && hit(0) ? -1 : real(dir, path, flags);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    return is_here(-1, path) && hit(0) ? -1 : real(path, mode);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return is_here(-1, to) && hit(0) ? -1 : real(from, to);
}

int symlink(const char *to, const char *path) {
    REAL(int, "symlink", const char *, const char *);
    return is_here(-1, path) && hit(0) ? -1 : real(to, path);
}
