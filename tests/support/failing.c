/* Make one write to a file below a folder fail, or its closing, or a sync.

   Load it with LD_PRELOAD. FAILING_FOLDER is the folder, FAILING_CONTROL the path of a
   file that holds a struct control, which `tests/support/disks.py` reads and writes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

struct control {
    int failing; /* the call that fails, counted from 1; 0 for none */
    int number;  /* its errno */
    int seen;    /* calls up to now */
};

static volatile struct control *control;
static const char *folder;

#define REAL(type, name, ...)                                                          \
    static type (*real)(__VA_ARGS__);                                                  \
    if (!real)                                                                         \
        real = dlsym(RTLD_NEXT, name)

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("FAILING_CONTROL");
    folder = getenv("FAILING_FOLDER");
    FILE *file = path && folder ? fopen(path, "r+") : NULL;
    if (!file)
        return;
    void *at = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (at != MAP_FAILED)
        control = at;
    fclose(file);
}

static int fails(int descriptor, int syncs) {
    char link[64], path[4096];
    if (!control)
        return 0;
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || (!syncs && (flags & O_ACCMODE) == O_RDONLY))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    if (strncmp(path, folder, strlen(folder)))
        return 0;
    int call = __sync_add_and_fetch(&control->seen, 1);
    return call == control->failing ? control->number : 0;
}

ssize_t write(int descriptor, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    int number = fails(descriptor, 0);
    if (!number)
        return real(descriptor, data, size);
    errno = number;
    return -1;
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    int number = fails(descriptor, 0);
    if (!number)
        return real(descriptor, parts, count);
    errno = number;
    return -1;
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t at) {
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    int number = fails(descriptor, 0);
    if (!number)
        return real(descriptor, data, size, at);
    errno = number;
    return -1;
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    int number = fails(descriptor, 0);
    if (!number)
        return real(descriptor, data, size, at);
    errno = number;
    return -1;
}

int fsync(int descriptor) {
    REAL(int, "fsync", int);
    int number = fails(descriptor, 1);
    if (!number)
        return real(descriptor);
    errno = number;
    return -1;
}

int fdatasync(int descriptor) {
    REAL(int, "fdatasync", int);
    int number = fails(descriptor, 1);
    if (!number)
        return real(descriptor);
    errno = number;
    return -1;
}

int close(int descriptor) {
    REAL(int, "close", int);
    int number = fails(descriptor, 0);
    int result = real(descriptor);
    if (!number)
        return result;
    errno = number;
    return -1;
}
