/* The floor's vocabulary: system calls without a C library. See floor.c, which ends this program. */
#include <asm/unistd.h>
#include <linux/close_range.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <linux/wait.h>

static inline __attribute__((always_inline)) long sys(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long ret;
	register long r10 asm("r10") = d;
	register long r8 asm("r8") = e;
	register long r9 asm("r9") = f;
	asm volatile("syscall"
		     : "=a"(ret)
		     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		     : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 asm("x8") = nr;
	register long x0 asm("x0") = a;
	register long x1 asm("x1") = b;
	register long x2 asm("x2") = c;
	register long x3 asm("x3") = d;
	register long x4 asm("x4") = e;
	register long x5 asm("x5") = f;
	asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#else
#error "amd64 and arm64 only"
#endif
}

static inline int is_errno(long ret) { return ret < 0 && ret >= -4095; }

/* Where the child stopped, counted from 1, and with which result. */
static volatile long stopped_at, stopped_with;

static void stop(long step, long ret)
{
	stopped_with = ret;
	stopped_at = step;
	for (;;)
		sys(__NR_exit_group, 125, 0, 0, 0, 0, 0);
}
