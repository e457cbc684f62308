package userns_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"wolffia.dev/nsexec"
	"wolffia.dev/userns"
)

// self is a map of the caller alone, who is root inside.
func self() (uid, gid userns.IDMap) {
	return userns.IDMap{{Inside: 0, Outside: uint32(os.Geteuid()), Length: 1}}, userns.IDMap{{Inside: 0, Outside: uint32(os.Getegid()), Length: 1}}
}

// One namespace, and what its fd tells.
func ExampleOpen() {
	uid, gid := self()
	ns, err := userns.Open(context.Background(), uid, gid)
	if err != nil {
		log.Fatal(err)
	}
	defer ns.Close()

	inside, _, err := userns.ReadMaps(context.Background(), int(ns.Fd())) // asked from inside, not remembered
	if err != nil {
		log.Fatal(err)
	}
	owner, err := userns.OwnerUID(int(ns.Fd()))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("root inside is me:", inside[0].Outside == owner)
	// Output: root inside is me: true
}

// Another mechanism, with a second choice; the report tells which one it was, and why.
func ExampleUsing() {
	uid, gid := self()
	var report userns.Report
	ns, err := userns.Open(context.Background(), uid, gid, userns.Using(userns.Ptrace, userns.VM), userns.Reporting(&report))
	if err != nil {
		log.Fatal(err)
	}
	defer ns.Close()
	fmt.Println(report.Mechanism, report.Notes)
	// Output: ptrace []
}

// Ten at once, without an allocation each. The maps are checked once.
func ExampleOpener_OpenMany() {
	opener, err := userns.NewOpener()
	if err != nil {
		log.Fatal(err)
	}
	defer opener.Close()
	maps, err := opener.Prepare(self())
	if err != nil {
		log.Fatal(err)
	}
	var fds [10]int
	if err := opener.OpenMany(context.Background(), maps, fds[:]); err != nil {
		log.Fatal(err)
	}
	seen := map[uint64]bool{}
	for _, fd := range fds {
		id, err := userns.ID(fd)
		if err != nil {
			log.Fatal(err)
		}
		seen[id] = true
		os.NewFile(uintptr(fd), "").Close()
	}
	fmt.Println(len(seen), "namespaces")
	// Output: 10 namespaces
}

// A pool makes namespaces in advance: a request costs the writing of its maps.
func ExampleOpener_NewPool() {
	opener, err := userns.NewOpener()
	if err != nil {
		log.Fatal(err)
	}
	defer opener.Close()
	pool, err := opener.NewPool(8)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	uid, gid := self()
	ns, err := pool.Open(context.Background(), uid, gid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("opened:", ns.Name())
	ns.Close()
	// Output: opened: user namespace
}

// A cache is for idmapped mounts: whoever needs these maps may have the same namespace.
func ExampleOpener_NewCache() {
	opener, err := userns.NewOpener()
	if err != nil {
		log.Fatal(err)
	}
	defer opener.Close()
	cache := opener.NewCache()
	uid, gid := self()
	one, err := cache.Open(context.Background(), uid, gid)
	if err != nil {
		log.Fatal(err)
	}
	two, err := cache.Open(context.Background(), uid, gid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same:", one.FD() == two.FD())
	one.Close()
	two.Close()
	fmt.Println("held:", cache.Len())
	// Output:
	// the same: true
	// held: 0
}

// A program of its own that goes in. It runs in a copy of our memory, which nobody inside can read.
func ExampleEnter() {
	uid, gid := self()
	ns, err := userns.Open(context.Background(), uid, gid)
	if err != nil {
		log.Fatal(err)
	}
	defer ns.Close()
	program := nsexec.Program{
		userns.Enter(nsexec.Slot("ns")),
		nsexec.Setresuid(0).Named("be root there"),
		nsexec.Sethostname("nobody").Named("change what isn't theirs").MustFail(1 /* EPERM: the host name belongs to another namespace */),
	}
	fmt.Print(program)
	if _, err := nsexec.RunPrivate(context.Background(), program, map[string]int{"ns": int(ns.Fd())}); err != nil {
		log.Fatal(err)
	}
	// Output:
	//   1  setns(ns, CLONE_NEWUSER)
	//   2  setresuid(0, 0, 0)
	//   3  sethostname("nobody", 6) == EPERM
}

// The mechanism as a list, without making a call of it.
func ExampleExplain() {
	if err := userns.Explain(os.Stdout, "pool", true); err != nil {
		log.Fatal(err)
	}
	// Output:
	// In advance, until the pool is full, with the mechanism vm:
	//   1  clone3({flags=CLONE_VM|CLONE_FILES|CLONE_PIDFD|CLONE_CLEAR_SIGHAND|CLONE_NEWUSER, exit_signal=0})
	//      make the child: exit_signal is 0: its end sends no SIGCHLD, and no wait4(-1) of this program reaps it  [clone(2)]
	//   2  open("/proc/PID/uid_map", O_RDWR|O_CLOEXEC)
	//      open uid_map: the open file holds the namespace, not the process  [user_namespaces(7)]
	//   3  open("/proc/PID/gid_map", O_RDWR|O_CLOEXEC)
	//      open gid_map  [user_namespaces(7)]
	//   4  ioctl(pidfd, PIDFD_GET_USER_NAMESPACE)
	//      take the namespace: the fd that is asked for; before Linux 6.11 it is open("/proc/PID/ns/user")  [ioctl_pidfd(2)]
	//   5  pidfd_send_signal(pidfd, SIGKILL)
	//      kill the child: its success proves that PID was our child's until now; it dies while the maps are written  [pidfd_send_signal(2)]
	//   6  waitid(P_PIDFD, its pidfd, WEXITED|__WALL)
	//      reap the child before this one: this one still dies, and to wait for that would cost more than all else: at most one zombie  [waitid(2)]
	//
	// For each request, with maps that we write ourselves:
	//   1  write(uid_map)
	//      write uid_map  [user_namespaces(7)]
	//   2  write(gid_map)
	//      write gid_map  [user_namespaces(7)]
	//
	// The child's lane, executed in assembly; then it exits:
	//   1  ppoll([{fd=the parent's pidfd, events=POLLIN}], 1, NULL, NULL, 8)
	//      wait to be killed: the pidfd is readable when the parent has died, and then the child ends too  [ppoll(2)]
}
