/*
 * The floor: the fixed part of the C program that makes exactly the system
 * calls of one plan and nothing else. What stands before this text was written
 * by bench.FloorSource: the slots, child() with one call for each step of the
 * child lane, and host() with one op_ call for each step of the host lane.
 *
 * It is what a start costs with no run-time at all: no planning, no results,
 * no error messages, and, compiled without a C library, no start-up code.
 *
 *	floor	    one start and wait; the exit status is the container's
 *	floor N     one start uncounted, then N timed: prints "N starts TOTAL ns"
 *
 * The children share this memory until their execve, as wolffia's do, so
 * nothing here may use thread-local storage (errno).
 */

/* A task is a child that shares this memory until its execve or its end. */
struct task {
	volatile unsigned tid; /* cleared by the kernel then (CLONE_CHILD_CLEARTID) */
	int pidfd;
	long pid;
	const char *path; /* programs only: newuidmap, newgidmap */
	const char **argv;
	int null, pipe[2];
	unsigned long core[2]; /* RLIMIT_CORE, soft and hard */
	char text[1024]; /* argv with the container's pid in it */
	char stack[16384] __attribute__((aligned(16)));
};

static struct task container, programs[2], keeper;
static int kept;
static int program_count;
static int lifeline[2];

static void start_task(struct task *t, unsigned long long flags, void (*body)(void *))
{
	static unsigned long long all = ~0ULL;
	unsigned long long old;
	struct clone_args a = {
		.flags = flags | CLONE_VM | CLONE_PIDFD | CLONE_CHILD_CLEARTID | CLONE_CLEAR_SIGHAND,
		.pidfd = (unsigned long)&t->pidfd,
		.child_tid = (unsigned long)&t->tid,
		.stack = (unsigned long)t->stack,
		.stack_size = sizeof t->stack,
	};
	t->tid = 1;
	sys(__NR_rt_sigprocmask, 0 /* SIG_BLOCK */, (long)&all, (long)&old, 8, 0, 0);
	t->pid = must(spawn(&a, body, t), "clone3");
	sys(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&old, 0, 8, 0, 0);
}

static void await_release(struct task *t)
{
	unsigned tid;
	while ((tid = t->tid))
		sys(__NR_futex, (long)&t->tid, FUTEX_WAIT, tid, 0, 0, 0);
}

/* reap returns the exit status; a death by signal N is 128 + N. */
static int reap(struct task *t)
{
	int info[32]; /* siginfo_t: si_signo, si_errno, si_code, -, si_pid, si_uid, si_status */
	must(sys(__NR_waitid, P_PIDFD, t->pidfd, (long)info, WEXITED | __WALL, 0, 0), "waitid");
	sys(__NR_close, t->pidfd, 0, 0, 0, 0, 0);
	return info[2] == 1 /* CLD_EXITED */ ? info[6] : 128 + info[6];
}

/* expand copies s with the container's pid for every CHILD, and returns the byte behind it. */
static char *expand(char *to, const char *s)
{
	while (*s) {
		if (s[0] == 'C' && s[1] == 'H' && s[2] == 'I' && s[3] == 'L' && s[4] == 'D') {
			to = put_number(to, container.pid);
			s += 5;
		} else {
			*to++ = *s++;
		}
	}
	*to++ = 0;
	return to;
}

static void op_pipe(int slot_number)
{
	must(sys(__NR_pipe2, (long)lifeline, O_CLOEXEC, 0, 0, 0, 0), "pipe2");
	slot[slot_number] = lifeline[0];
}

static void op_opentree(const char *path, int slot_number)
{
	long low = must(sys(__NR_open_tree, AT_FDCWD, (long)path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE, 0, 0, 0),
			"open_tree");
	slot[slot_number] = must(sys(__NR_fcntl, low, F_DUPFD_CLOEXEC, 128, 0, 0, 0), "fcntl");
	sys(__NR_close, low, 0, 0, 0, 0, 0);
}

static void op_clone(unsigned long long flags) { start_task(&container, flags, child); }

static void op_write(const char *path, const char *data, long size)
{
	char name[256];
	expand(name, path);
	long fd = must(sys(__NR_openat, AT_FDCWD, (long)name, O_WRONLY | O_CLOEXEC, 0, 0, 0), "open");
	must(sys(__NR_write, fd, (long)data, size, 0, 0, 0), "write");
	sys(__NR_close, fd, 0, 0, 0, 0, 0);
}

/* program_child is programSteps of nsexec/program.go, call for call. */
static void program_child(void *arg)
{
	static const char *env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", 0 };
	static unsigned long long none;
	struct task *t = arg;
	unsigned long none_of_it[2] = { 0, t->core[1] };
	sys(__NR_prctl, 1 /* PR_SET_PDEATHSIG */, 9, 0, 0, 0, 0);
	sys(__NR_getppid, 0, 0, 0, 0, 0, 0);
	sys(__NR_prlimit64, 0, 4 /* RLIMIT_CORE */, (long)none_of_it, 0, 0, 0);
	sys(__NR_dup3, t->null, 0, 0, 0, 0, 0);
	sys(__NR_dup3, t->pipe[1], 1, 0, 0, 0, 0);
	sys(__NR_dup3, t->pipe[1], 2, 0, 0, 0, 0);
	sys(__NR_close_range, 3, ~0U, 0, 0, 0, 0);
	sys(__NR_prlimit64, 0, 4 /* RLIMIT_CORE */, (long)t->core, 0, 0, 0);
	sys(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&none, 0, 8, 0, 0);
	sys(__NR_execve, (long)t->path, (long)t->argv, (long)env, 0, 0, 0);
	sys(__NR_exit_group, 127, 0, 0, 0, 0, 0);
}

static void op_exec(const char *path, const char **template, const char **argv)
{
	struct task *t = &programs[program_count++];
	char *text = t->text;
	int i;
	for (i = 0; template[i]; i++) {
		argv[i] = text;
		text = expand(text, template[i]);
	}
	t->path = path;
	t->argv = argv;
	must(sys(__NR_prlimit64, 0, 4 /* RLIMIT_CORE */, 0, (long)t->core, 0, 0), "prlimit64");
	t->null = must(sys(__NR_openat, AT_FDCWD, (long)"/dev/null", O_RDWR | O_CLOEXEC, 0, 0, 0), "open /dev/null");
	must(sys(__NR_pipe2, (long)t->pipe, O_CLOEXEC, 0, 0, 0, 0), "pipe2");
	start_task(t, 0, program_child);
	sys(__NR_close, t->pipe[1], 0, 0, 0, 0, 0);
	sys(__NR_close, t->null, 0, 0, 0, 0, 0);
}

static void op_join(void)
{
	char text[4096];
	int i;
	for (i = 0; i < program_count; i++) {
		struct task *t = &programs[i];
		long n;
		while ((n = sys(__NR_read, t->pipe[0], (long)text, sizeof text, 0, 0, 0)) > 0)
			sys(__NR_write, 2, (long)text, n, 0, 0, 0);
		await_release(t);
		if (reap(t) != 0)
			fail("an id map program failed, number", i);
		sys(__NR_close, t->pipe[0], 0, 0, 0, 0, 0);
	}
	program_count = 0;
}

static void op_idmap(int slot_number)
{
	struct { unsigned long long set, clear, propagation, userns; } attr = { .set = 0x00100000 /* MOUNT_ATTR_IDMAP */ };
	char name[64];
	expand(name, "/proc/CHILD/ns/user");
	attr.userns = must(sys(__NR_openat, AT_FDCWD, (long)name, O_RDONLY | O_CLOEXEC, 0, 0, 0), "open ns/user");
	must(sys(__NR_mount_setattr, slot[slot_number], (long)"", AT_EMPTY_PATH | AT_RECURSIVE, (long)&attr, sizeof attr, 0),
	     "mount_setattr");
	sys(__NR_close, attr.userns, 0, 0, 0, 0, 0);
}

static void op_gate(void) { sys(__NR_write, lifeline[1], (long)".", 1, 0, 0, 0); }

/* keeper_child is keeperSteps of nsexec/keeper.go, call for call. */
static void keeper_child(void *arg)
{
	struct task *t = arg;
	struct { int fd; short events, revents; } fds[2] = { { 3, 1 /* POLLIN */, 0 }, { 4, 1, 0 } };
	sys(__NR_prctl, 15 /* PR_SET_NAME */, (long)"floor-keeper", 0, 0, 0, 0);
	long high[4];
	int i, n = 2 + program_count;
	high[0] = sys(__NR_fcntl, t->pipe[0], F_DUPFD_CLOEXEC, 16, 0, 0, 0);
	high[1] = sys(__NR_fcntl, container.pidfd, F_DUPFD_CLOEXEC, 16, 0, 0, 0);
	for (i = 0; i < program_count; i++)
		high[2 + i] = sys(__NR_fcntl, programs[i].pidfd, F_DUPFD_CLOEXEC, 16, 0, 0, 0);
	for (i = 0; i < n; i++)
		sys(__NR_dup3, high[i], 3 + i, O_CLOEXEC, 0, 0, 0);
	sys(__NR_close_range, 0, 2, 0, 0, 0, 0);
	sys(__NR_close_range, 3 + n, ~0U, 0, 0, 0, 0);
	sys(__NR_ppoll, (long)fds, 2, 0, 0, 8, 0);
	for (i = 1; i < n; i++)
		sys(__NR_pidfd_send_signal, 3 + i, 9, 0, 0, 0, 0);
	sys(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}

static void op_keep(void)
{
	must(sys(__NR_pipe2, (long)keeper.pipe, O_CLOEXEC, 0, 0, 0, 0), "pipe2");
	start_task(&keeper, 0, keeper_child);
	sys(__NR_setpgid, keeper.pid, 0, 0, 0, 0, 0);
	sys(__NR_close, keeper.pipe[0], 0, 0, 0, 0, 0);
	kept = 1;
}

static void dismiss_keeper(void)
{
	if (!kept)
		return;
	kept = 0;
	sys(__NR_pidfd_send_signal, keeper.pidfd, 9, 0, 0, 0, 0);
	reap(&keeper);
	sys(__NR_close, keeper.pipe[1], 0, 0, 0, 0, 0);
}

static void op_release(void) { await_release(&container); }

static void op_dumpable(void) { sys(__NR_prctl, 4 /* PR_SET_DUMPABLE */, 1, 0, 0, 0, 0); }

/* one makes a container and waits for its end. */
static int one(void)
{
	stopped_at = 0;
	host();
	sys(__NR_close, lifeline[1], 0, 0, 0, 0, 0);
	close_inputs();
	if (stopped_at)
		fail(is_errno(stopped_with) ? "errno of the child's failed step:" : "the child's step returned", stopped_with);
	int status = reap(&container);
	dismiss_keeper();
	return status;
}

static void loop(long n)
{
	long i, start = 0;
	for (i = 0; i <= n; i++) {
		if (i == 1)
			start = now();
		if (one() != 0)
			fail("exit status of start", i);
	}
	print_total(n, " starts ", now() - start);
}

static int run(long argc, char **argv)
{
	if (argc < 2)
		return one();
	loop(number(argv[1]));
	return 0;
}
