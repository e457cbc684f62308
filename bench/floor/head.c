/* The floors' vocabulary: system calls without a C library. Behind it stand floor.c or usernsfd.c, then entry.c. */
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

/* spawn is clone3 for a child with a stack of its own: it calls body(arg), which never returns. */
static long spawn(struct clone_args *a, void (*body)(void *), void *arg)
{
#if defined(__x86_64__)
	long ret;
	asm volatile("syscall\n\t"
		     "test %%rax, %%rax\n\t"
		     "jnz 1f\n\t"
		     "mov %[arg], %%rdi\n\t"
		     "call *%[body]\n\t"
		     "hlt\n"
		     "1:"
		     : "=a"(ret)
		     : "a"(__NR_clone3), "D"(a), "S"(sizeof *a), [body] "r"(body), [arg] "r"(arg)
		     : "rcx", "r11", "memory");
	return ret;
#else
	register long x8 asm("x8") = __NR_clone3;
	register long x0 asm("x0") = (long)a;
	register long x1 asm("x1") = sizeof *a;
	asm volatile("svc 0\n\t"
		     "cbnz x0, 1f\n\t"
		     "mov x0, %[arg]\n\t"
		     "blr %[body]\n\t"
		     "brk 0\n"
		     "1:"
		     : "+r"(x0)
		     : "r"(x8), "r"(x1), [body] "r"(body), [arg] "r"(arg)
		     : "x30", "memory");
	return x0;
#endif
}

static void print(const char *s)
{
	long n = 0;
	while (s[n])
		n++;
	sys(__NR_write, 2, (long)s, n, 0, 0, 0);
}

static char *put_number(char *to, long n)
{
	char digits[20];
	int i = 0;
	do
		digits[i++] = '0' + n % 10;
	while (n /= 10);
	while (i)
		*to++ = digits[--i];
	return to;
}

static void fail(const char *what, long number)
{
	char text[24];
	print("floor: ");
	print(what);
	print(" ");
	*put_number(text, number < 0 ? -number : number) = 0;
	print(text);
	print("\n");
	sys(__NR_exit_group, 125, 0, 0, 0, 0, 0);
}

static long must(long ret, const char *what)
{
	if (is_errno(ret))
		fail(what, ret);
	return ret;
}

static long now(void)
{
	long ts[2];
	sys(__NR_clock_gettime, 1 /* CLOCK_MONOTONIC */, (long)ts, 0, 0, 0, 0);
	return ts[0] * 1000000000L + ts[1];
}

static long number(const char *s)
{
	long n = 0;
	for (; *s >= '0' && *s <= '9'; s++)
		n = 10 * n + *s - '0';
	return n;
}

/* print_total prints "N things TOTAL ns" to stdout. */
static void print_total(long n, const char *things, long ns)
{
	char text[64], *end = put_number(text, n);
	while (*things)
		*end++ = *things++;
	end = put_number(end, ns);
	for (things = " ns\n"; *things;)
		*end++ = *things++;
	sys(__NR_write, 1, (long)text, end - text, 0, 0, 0);
}
