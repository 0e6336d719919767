/* Makes one system call of a program fail: preloaded by the tests into the real binary.
 *
 * BEDLOAD_FAULT=CALL:NUMBER:ERRNO:TEXT fails the calls of CALL (write, read, sync, open or rename), from the NUMBER-th
 * on, on files whose path contains TEXT, or ends with it where TEXT ends with $, with ERRNO. Everything else goes on to the C library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char wanted[16], text[256];
static long from, error_number;
static long seen;

__attribute__((constructor)) static void setup(void) {
  const char *fault = getenv("BEDLOAD_FAULT");
  if (fault == NULL || sscanf(fault, "%15[^:]:%ld:%ld:%255[^\n]", wanted, &from, &error_number, text) != 4)
    wanted[0] = 0;
}

static int is_meant(const char *path) {
  size_t len = strlen(text), of = strlen(path);
  if (len == 0 || text[len - 1] != '$') return strstr(path, text) != NULL;
  return of >= len - 1 && strncmp(path + of - (len - 1), text, len - 1) == 0;
}

static int fails_at(const char *call, const char *path) {
  if (strcmp(call, wanted) != 0 || path == NULL || !is_meant(path)) return 0;
  if (__atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED) < from) return 0;
  errno = (int)error_number;
  return 1;
}

static int path_of(int fd, char *path, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  int before = errno;
  ssize_t len = readlink(link, path, size - 1);
  errno = before;
  if (len < 0) return 0;
  path[len] = 0;
  return 1;
}

static int fails(const char *call, int fd) {
  char path[512];
  return strcmp(call, wanted) == 0 && path_of(fd, path, sizeof path) && fails_at(call, path);
}

/* A file whose reads are to fail cannot be mapped either: what is mapped is not read by any call. */
static void *map(void *at, size_t len, int protection, int flags, int fd, off64_t from_byte) {
  char path[512];
  if (fd >= 0 && strcmp("read", wanted) == 0 && path_of(fd, path, sizeof path) && is_meant(path)) {
    errno = ENODEV;
    return MAP_FAILED;
  }
  return (void *)syscall(SYS_mmap, at, len, protection, flags, fd, from_byte);
}

#define NEXT(name) \
  static __typeof__(name) *next; \
  if (next == NULL) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *bytes, size_t len) {
  NEXT(write);
  return fails("write", fd) ? -1 : next(fd, bytes, len);
}
ssize_t writev(int fd, const struct iovec *pieces, int count) {
  NEXT(writev);
  return fails("write", fd) ? -1 : next(fd, pieces, count);
}
ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) {
  NEXT(pwrite);
  return fails("write", fd) ? -1 : next(fd, bytes, len, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at) {
  NEXT(pwrite64);
  return fails("write", fd) ? -1 : next(fd, bytes, len, at);
}
void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t from_byte) {
  return map(at, len, protection, flags, fd, from_byte);
}
void *mmap64(void *at, size_t len, int protection, int flags, int fd, off64_t from_byte) {
  return map(at, len, protection, flags, fd, from_byte);
}
ssize_t read(int fd, void *bytes, size_t len) {
  NEXT(read);
  return fails("read", fd) ? -1 : next(fd, bytes, len);
}
ssize_t pread(int fd, void *bytes, size_t len, off_t at) {
  NEXT(pread);
  return fails("read", fd) ? -1 : next(fd, bytes, len, at);
}
ssize_t pread64(int fd, void *bytes, size_t len, off64_t at) {
  NEXT(pread64);
  return fails("read", fd) ? -1 : next(fd, bytes, len, at);
}
int fsync(int fd) {
  NEXT(fsync);
  return fails("sync", fd) ? -1 : next(fd);
}
int fdatasync(int fd) {
  NEXT(fdatasync);
  return fails("sync", fd) ? -1 : next(fd);
}
int rename(const char *old_path, const char *new_path) {
  NEXT(rename);
  return fails_at("rename", new_path) ? -1 : next(old_path, new_path);
}

#define MODE \
  mode_t mode = 0; \
  if (flags & (O_CREAT | O_TMPFILE)) { \
    va_list list; \
    va_start(list, flags); \
    mode = va_arg(list, mode_t); \
    va_end(list); \
  }

int open(const char *path, int flags, ...) {
  NEXT(open);
  MODE return fails_at("open", path) ? -1 : next(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  NEXT(open64);
  MODE return fails_at("open", path) ? -1 : next(path, flags, mode);
}
int openat(int dir, const char *path, int flags, ...) {
  NEXT(openat);
  MODE return fails_at("open", path) ? -1 : next(dir, path, flags, mode);
}
