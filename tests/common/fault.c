/* Makes system calls of a program fail: preloaded by the tests into the real binary.
 *
 * BEDLOAD_FAULT=CALL:NUMBER:ERRNO:TEXT fails the calls of CALL (write, read, sync, open or rename), from the NUMBER-th
 * on, on files whose path contains TEXT, or ends with it where TEXT ends with $, with ERRNO. Everything else is passed to the C library.
 * With CALL `thread` fewer than NUMBER threads may run at once beside the first, with CALL `start` fewer than NUMBER may
 * ever start; TEXT is then any.
 *
 * CALL may be `change`: every call that changes a file or a directory, whoever makes it. Code that makes its calls
 * without the C library is caught too, because the kernel hands these calls over (seccomp). ERRNO may then be
 *    0  the process dies before the call
 *   -1  the process dies after the call; of a write only the first half is done
 *   -2  the process stops (SIGSTOP) before the call, once
 * BEDLOAD_FAULT_TIMES=N lets N calls fail instead of all; BEDLOAD_FAULT_SEEN names a file of 8 bytes that counts them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

static char wanted[16], text[256];
static long from, error_number, times;
static long seen_here, *seen = &seen_here;

static void catch_changes(void);

__attribute__((constructor)) static void setup(void) {
  const char *fault = getenv("BEDLOAD_FAULT"), *limit = getenv("BEDLOAD_FAULT_TIMES"), *count = getenv("BEDLOAD_FAULT_SEEN");
  if (fault == NULL || sscanf(fault, "%15[^:]:%ld:%ld:%255[^\n]", wanted, &from, &error_number, text) != 4)
    wanted[0] = 0;
  times = limit == NULL ? 0 : atol(limit);
  int fd = count == NULL ? -1 : open(count, O_RDWR | O_CLOEXEC);
  if (fd >= 0) {
    void *shared = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared != MAP_FAILED) seen = shared;
    close(fd);
  }
  if (strcmp(wanted, "change") == 0) catch_changes();
}

static int is_meant(const char *path) {
  /* Options are tried elsewhere than on the disk that fails. */
  if (strstr(path, "/bedload-options-") != NULL && strstr(text, "bedload-options") == NULL) return 0;
  size_t len = strlen(text), of = strlen(path);
  if (len == 0 || text[len - 1] != '$') return strstr(path, text) != NULL;
  return of >= len - 1 && strncmp(path + of - (len - 1), text, len - 1) == 0;
}

static int fails_at(const char *call, const char *path) {
  if (strcmp(call, wanted) != 0 || path == NULL || !is_meant(path)) return 0;
  long number = __atomic_add_fetch(seen, 1, __ATOMIC_RELAXED);
  if (number < from || (times > 0 && number >= from + times)) return 0;
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

static long threads, started;

struct thread {
  void *(*start)(void *);
  void *argument;
};

static void *run_thread(void *given) {
  struct thread thread = *(struct thread *)given;
  free(given);
  void *result = thread.start(thread.argument);
  __atomic_sub_fetch(&threads, 1, __ATOMIC_RELAXED);
  return result;
}

int pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  NEXT(pthread_create);
  int at_once = strcmp("thread", wanted) == 0;
  if (!at_once && strcmp("start", wanted) != 0) return next(id, attributes, start, argument);
  struct thread *thread = malloc(sizeof *thread);
  *thread = (struct thread){start, argument};
  long running = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED), so_far = __atomic_add_fetch(&started, 1, __ATOMIC_RELAXED);
  int refused = (at_once ? running : so_far) >= from;
  int error = refused ? (int)error_number : next(id, attributes, run_thread, thread);
  if (error != 0) {
    free(thread);
    __atomic_sub_fetch(&threads, 1, __ATOMIC_RELAXED);
  }
  return error;
}

/* A function of the C library whose calls on a file may fail. */
#define ON_FILE(result, name, call, parameters, ...) \
  result name parameters { \
    NEXT(name); \
    return fails(call, fd) ? -1 : next(__VA_ARGS__); \
  }
ON_FILE(ssize_t, write, "write", (int fd, const void *bytes, size_t len), fd, bytes, len)
ON_FILE(ssize_t, writev, "write", (int fd, const struct iovec *pieces, int count), fd, pieces, count)
ON_FILE(ssize_t, pwrite, "write", (int fd, const void *bytes, size_t len, off_t at), fd, bytes, len, at)
ON_FILE(ssize_t, pwrite64, "write", (int fd, const void *bytes, size_t len, off64_t at), fd, bytes, len, at)
ON_FILE(ssize_t, read, "read", (int fd, void *bytes, size_t len), fd, bytes, len)
ON_FILE(ssize_t, pread, "read", (int fd, void *bytes, size_t len, off_t at), fd, bytes, len, at)
ON_FILE(ssize_t, pread64, "read", (int fd, void *bytes, size_t len, off64_t at), fd, bytes, len, at)
ON_FILE(int, fsync, "sync", (int fd), fd)
ON_FILE(int, fdatasync, "sync", (int fd), fd)

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t from_byte) {
  return map(at, len, protection, flags, fd, from_byte);
}
void *mmap64(void *at, size_t len, int protection, int flags, int fd, off64_t from_byte) {
  return map(at, len, protection, flags, fd, from_byte);
}
int rename(const char *old_path, const char *new_path) {
  NEXT(rename);
  return fails_at("rename", new_path) ? -1 : next(old_path, new_path);
}

#define OPEN(name, parameters, ...) \
  int name parameters { \
    NEXT(name); \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
      va_list list; \
      va_start(list, flags); \
      mode = va_arg(list, mode_t); \
      va_end(list); \
    } \
    return fails_at("open", path) ? -1 : next(__VA_ARGS__, flags, mode); \
  }
OPEN(open, (const char *path, int flags, ...), path)
OPEN(open64, (const char *path, int flags, ...), path)
OPEN(openat, (int dir, const char *path, int flags, ...), dir, path)

/* `change`: the kernel sends SIGSYS instead of making the call, unless the call is made in `pass_on`. */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define REGISTER(context, name) ((context)->uc_mcontext.gregs[name])
#define ARGUMENTS(context) \
  { REGISTER(context, REG_RDI), REGISTER(context, REG_RSI), REGISTER(context, REG_RDX), REGISTER(context, REG_R10), \
    REGISTER(context, REG_R8), REGISTER(context, REG_R9) }
#define RESULT(context) REGISTER(context, REG_RAX)
long pass_on(long number, const long *arguments);
__asm__(
    ".text\n.local pass_on\n.type pass_on, @function\npass_on:\n"
    "mov %rdi, %rax\nmov %rsi, %r11\n"
    "mov (%r11), %rdi\nmov 8(%r11), %rsi\nmov 16(%r11), %rdx\n"
    "mov 24(%r11), %r10\nmov 32(%r11), %r8\nmov 40(%r11), %r9\n"
    "syscall\nret\n.size pass_on, . - pass_on\n");
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#define ARGUMENTS(context) \
  { (context)->uc_mcontext.regs[0], (context)->uc_mcontext.regs[1], (context)->uc_mcontext.regs[2], \
    (context)->uc_mcontext.regs[3], (context)->uc_mcontext.regs[4], (context)->uc_mcontext.regs[5] }
#define RESULT(context) ((context)->uc_mcontext.regs[0])
long pass_on(long number, const long *arguments);
__asm__(
    ".text\n.local pass_on\n.type pass_on, %function\npass_on:\n"
    "mov x8, x0\nmov x9, x1\nldp x0, x1, [x9]\nldp x2, x3, [x9, #16]\nldp x4, x5, [x9, #32]\n"
    "svc #0\nret\n.size pass_on, . - pass_on\n");
#else
#error "the registers of this machine are not known"
#endif

/* Bytes of `pass_on` at most. */
#define PASS_ON 64

/* What a call changes: the file of a descriptor, or a name below a directory; -1 is no such argument. */
static const struct call {
  int number, fd, dir, name;
} calls[] = {
    {SYS_write, 0, -1, -1},       {SYS_pwrite64, 0, -1, -1},        {SYS_writev, 0, -1, -1},
    {SYS_pwritev, 0, -1, -1},     {SYS_pwritev2, 0, -1, -1},        {SYS_ftruncate, 0, -1, -1},
    {SYS_fallocate, 0, -1, -1},   {SYS_fsync, 0, -1, -1},           {SYS_fdatasync, 0, -1, -1},
    {SYS_syncfs, 0, -1, -1},      {SYS_sync_file_range, 0, -1, -1}, {SYS_fchmod, 0, -1, -1},
    {SYS_sendfile, 0, -1, -1},    {SYS_copy_file_range, 2, -1, -1}, {SYS_unlinkat, -1, 0, 1},
    {SYS_mkdirat, -1, 0, 1},      {SYS_renameat2, -1, 2, 3},        {SYS_linkat, -1, 2, 3},
    {SYS_symlinkat, -1, 1, 2},    {SYS_fchmodat, -1, 0, 1},         {SYS_truncate, -1, -1, 0},
#ifdef SYS_renameat
    {SYS_renameat, -1, 2, 3},
#endif
#ifdef SYS_rename
    {SYS_rename, -1, -1, 1},      {SYS_unlink, -1, -1, 0},          {SYS_rmdir, -1, -1, 0},
    {SYS_mkdir, -1, -1, 0},       {SYS_link, -1, -1, 1},            {SYS_symlink, -1, -1, 1},
    {SYS_chmod, -1, -1, 0},       {SYS_creat, -1, -1, 0},
#endif
};
#define CALLS (sizeof calls / sizeof calls[0])
static const struct call open_at = {SYS_openat, -1, 0, 1};
#ifdef SYS_open
static const struct call open_here = {SYS_open, -1, -1, 0};
#endif

static int concerns(const struct call *call, const long *arguments) {
  char path[2048];
  if (call->fd >= 0) return path_of((int)arguments[call->fd], path, sizeof path) && is_meant(path);
  const char *name = (const char *)arguments[call->name];
  if (name == NULL) return 0;
  if (name[0] != '/' && call->dir >= 0 && (int)arguments[call->dir] != AT_FDCWD) {
    if (!path_of((int)arguments[call->dir], path, 1024)) return 0;
    snprintf(path + strlen(path), 1000, "/%.990s", name);
    return is_meant(path);
  }
  return is_meant(name);
}

static long decide(long number, long *arguments) {
  const struct call *call = &open_at;
  for (size_t i = 0; i < CALLS; i++)
    if (calls[i].number == number) call = &calls[i];
#ifdef SYS_open
  if (number == SYS_open) call = &open_here;
#endif
  if (!concerns(call, arguments)) return pass_on(number, arguments);
  long nth = __atomic_add_fetch(seen, 1, __ATOMIC_RELAXED);
  long die[6] = {137, 0, 0, 0, 0, 0}, stop[6] = {getpid(), SIGSTOP, 0, 0, 0, 0};
  if (error_number > 0) {
    int spared = nth < from || (times > 0 && nth >= from + times);
    return spared ? pass_on(number, arguments) : -error_number;
  }
  if (nth != from) return pass_on(number, arguments);
  if (error_number == -2) pass_on(SYS_kill, stop);
  if (error_number == -1) {
    if (number == SYS_write || number == SYS_pwrite64) arguments[2] /= 2;
    pass_on(number, arguments);
  }
  if (error_number > -2) pass_on(SYS_exit_group, die);
  return pass_on(number, arguments);
}

static void on_call(int signal, siginfo_t *info, void *context) {
  (void)signal;
  int before = errno;
  long arguments[6] = ARGUMENTS((ucontext_t *)context);
  RESULT((ucontext_t *)context) = decide(info->si_syscall, arguments);
  errno = before;
}

static void catch_changes(void) {
  struct sock_filter code[2 * CALLS + 32];
  unsigned short at = 0;
  uint64_t first = (uint64_t)(uintptr_t)pass_on, last = first + PASS_ON;
#define PUT(...) code[at++] = (struct sock_filter)__VA_ARGS__
#define WORD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, field)))
#define WORD_AT(field, more) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, field) + (more)))
#define IF(test, value, yes, no) BPF_JUMP(BPF_JMP | test | BPF_K, (uint32_t)(value), yes, no)
#define END(action) BPF_STMT(BPF_RET | BPF_K, action)
  /* Words are little endian on both machines. Calls of `pass_on` pass. */
  PUT(WORD_AT(instruction_pointer, 4));
  PUT(IF(BPF_JEQ, first >> 32, 0, 4));
  PUT(WORD(instruction_pointer));
  PUT(IF(BPF_JGE, first, 0, 2));
  PUT(IF(BPF_JGT, last, 1, 0));
  PUT(END(SECCOMP_RET_ALLOW));
  PUT(WORD(arch));
  PUT(IF(BPF_JEQ, ARCH, 1, 0));
  PUT(END(SECCOMP_RET_ALLOW));
  PUT(WORD(nr));
  for (size_t i = 0; i < CALLS; i++) {
    PUT(IF(BPF_JEQ, calls[i].number, 0, 1));
    PUT(END(SECCOMP_RET_TRAP));
  }
  /* A file is opened to be made or emptied. */
  const struct { int number, flags; } opens[] = {
      {SYS_openat, 2},
#ifdef SYS_open
      {SYS_open, 1},
#endif
  };
  for (size_t i = 0; i < sizeof opens / sizeof opens[0]; i++) {
    PUT(IF(BPF_JEQ, opens[i].number, 0, 4));
    PUT(WORD_AT(args, 8 * opens[i].flags));
    PUT(IF(BPF_JSET, O_CREAT | O_TRUNC, 0, 1));
    PUT(END(SECCOMP_RET_TRAP));
    PUT(END(SECCOMP_RET_ALLOW));
  }
  PUT(END(SECCOMP_RET_ALLOW));

  struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
  struct sock_fprog program = {.len = at, .filter = code};
  if (sigaction(SIGSYS, &action, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    static const char why[] = "SKIPPED: the kernel does not hand over system calls (seccomp)\n";
    (void)!write(2, why, sizeof why - 1);
    _exit(99);
  }
}
