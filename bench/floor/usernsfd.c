/*
 * The floor of a user namespace fd: the system calls of wolffia's mechanism vm
 * and nothing else (package userns, vm.go): a child that shares memory and fds,
 * everything opened, the child killed, the maps written, the child before it reaped.
 *
 *	usernsfd N BATCH UID_MAP GID_MAP [deny]
 *
 * one batch of BATCH namespaces uncounted, then N timed: prints "N batches
 * TOTAL ns". The maps are written as they are given.
 */

#define PIDFD_GET_USER_NAMESPACE 0xff09
enum { most = 16 };

struct namespace {
	int pidfd, uid_map, gid_map, setgroups, ns;
	long pid;
	char stack[4096] __attribute__((aligned(16)));
};

/* Two, since the last child of a batch may still be dying on its stack when the next batch begins. */
static struct namespace lists[2][most], *list = lists[0];
static struct { int fd; short events, revents; } self = { -1, 1 /* POLLIN */, 0 };
static const char *uid_text, *gid_text;
static int deny;

static void child(void *unused)
{
	sys(__NR_ppoll, (long)&self, 1, 0, 0, 8, 0);
	for (;;)
		sys(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}

static long length(const char *s)
{
	long n = 0;
	while (s[n])
		n++;
	return n;
}

static int open_proc(long pid, const char *name)
{
	char path[64] = "/proc/", *end = put_number(path + 6, pid);
	while ((*end++ = *name++))
		;
	return must(sys(__NR_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0), "open");
}

static void write_close(int fd, const char *text)
{
	must(sys(__NR_write, fd, (long)text, length(text), 0, 0, 0), "write");
	sys(__NR_close, fd, 0, 0, 0, 0, 0);
}

static void make(struct namespace *n)
{
	static unsigned long long all = ~0ULL;
	unsigned long long old;
	struct clone_args a = {
		.flags = CLONE_VM | CLONE_FILES | CLONE_NEWUSER | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (unsigned long)&n->pidfd,
		.stack = (unsigned long)n->stack,
		.stack_size = sizeof n->stack,
	};
	sys(__NR_rt_sigprocmask, 0 /* SIG_BLOCK */, (long)&all, (long)&old, 8, 0, 0);
	n->pid = must(spawn(&a, child, 0), "clone3");
	sys(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&old, 0, 8, 0, 0);
	n->uid_map = open_proc(n->pid, "/uid_map");
	if (deny)
		n->setgroups = open_proc(n->pid, "/setgroups");
	n->gid_map = open_proc(n->pid, "/gid_map");
	n->ns = must(sys(__NR_ioctl, n->pidfd, PIDFD_GET_USER_NAMESPACE, 0, 0, 0, 0), "ioctl");
	must(sys(__NR_pidfd_send_signal, n->pidfd, 9, 0, 0, 0, 0), "pidfd_send_signal");
}

static void fill(struct namespace *n)
{
	write_close(n->uid_map, uid_text);
	if (deny)
		write_close(n->setgroups, "deny");
	write_close(n->gid_map, gid_text);
}

/* retire leaves n's child to die and reaps the one before it. */
static void retire(struct namespace *n)
{
	static int before = -1;
	int info[32];
	if (before >= 0) {
		must(sys(__NR_waitid, P_PIDFD, before, (long)info, WEXITED | __WALL, 0, 0), "waitid");
		sys(__NR_close, before, 0, 0, 0, 0, 0);
	}
	before = n->pidfd;
}

static void batch(long size)
{
	long i;
	list = list == lists[0] ? lists[1] : lists[0];
	for (i = 0; i < size; i++)
		make(&list[i]);
	for (i = 0; i < size; i++)
		fill(&list[i]);
	for (i = 0; i < size; i++)
		retire(&list[i]);
	for (i = 0; i < size; i++)
		sys(__NR_close, list[i].ns, 0, 0, 0, 0, 0);
}

static int run(long argc, char **argv)
{
	long i, n, size, start = 0;
	if (argc < 5)
		fail("usage: usernsfd N BATCH UID_MAP GID_MAP; arguments:", argc - 1);
	n = number(argv[1]);
	size = number(argv[2]);
	if (size > most)
		fail("largest batch:", most);
	uid_text = argv[3];
	gid_text = argv[4];
	deny = argc > 5;
	self.fd = must(sys(__NR_pidfd_open, sys(__NR_getpid, 0, 0, 0, 0, 0, 0), 0, 0, 0, 0, 0), "pidfd_open");
	for (i = 0; i <= n; i++) {
		if (i == 1)
			start = now();
		batch(size);
	}
	print_total(n, " batches ", now() - start);
	return 0;
}

