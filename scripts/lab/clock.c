/* Preloaded into a process of the laboratory: adds the seconds in the file HOLDFAST_LAB_CLOCK to the
   wall clock that Python sees. Monotonic clocks, and callers other than Python, see the true time:
   the kernel, which ends their waits, would know nothing of the jump. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile const long long *offset_s;
static int (*true_time)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("HOLDFAST_LAB_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    *(void **)&true_time = dlsym(RTLD_NEXT, "clock_gettime");
    if (file < 0) return;
    void *found = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) offset_s = found;
    close(file);
}

static int is_python(const void *caller) {
    Dl_info from;
    if (!dladdr(caller, &from) || !from.dli_fname) return 0;
    const char *slash = strrchr(from.dli_fname, '/'), *name = slash ? slash + 1 : from.dli_fname;
    return !strncmp(name, "python", 6) || !strncmp(name, "libpython", 9) ||
           !strncmp(name, "_datetime", 9);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!true_time) *(void **)&true_time = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = true_time(clock, now);
    if (!failed && clock == CLOCK_REALTIME && offset_s && is_python(__builtin_return_address(0)))
        now->tv_sec += *offset_s;
    return failed;
}
