package nsexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// receiver is a Network inside this program: it takes what the child hands over.
type receiver struct {
	socket int
	fds    []int
	refuse error
}

func (r *receiver) Start(_ context.Context, handover int, _ *Process) (err error) {
	r.socket, err = unix.FcntlInt(uintptr(handover), unix.F_DUPFD_CLOEXEC, 0)
	return err
}

func (r *receiver) Ready(context.Context) error {
	defer unix.Close(r.socket)
	control := make([]byte, unix.CmsgSpace(4*4))
	_, n, _, _, err := unix.Recvmsg(r.socket, nil, control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return fmt.Errorf("%d control messages: %w", len(messages), errors.Join(err, unix.EPROTO))
	}
	if r.fds, err = unix.ParseUnixRights(&messages[0]); err != nil {
		return err
	}
	return r.refuse
}

// handoverPlan makes a socket in a new network namespace and hands it over.
func handoverPlan(r *receiver) *Plan {
	return &Plan{
		Network: r,
		Host: []HostStep{
			{Name: "lifeline", Op: OpPipe},
			{Name: "handover", Op: OpSocket},
			{Name: "make the child", Op: OpClone, Flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET},
			{Name: "start the network", Op: OpNetwork, Path: "test", Data: "a socket"},
			{Name: "network ready", Op: OpReady, Data: "test"},
			{Name: "open the gate", Op: OpGate, Data: GateNetwork},
			{Name: "wait for execve", Op: OpRelease},
		},
		Child: Program{
			deathSignal(),
			Dup3(Slot(Lifeline), Int(3), unix.O_CLOEXEC).Named("keep the lifeline").Allow("it has this number already", unix.EINVAL),
			Dup3(Slot(Handover), Int(4), unix.O_CLOEXEC).Named("keep the socket"),
			CloseRange(5, ^uint32(0), 0).Named("close all else"),
			Socket("AF_NETLINK", "SOCK_RAW", unix.AF_NETLINK, unix.SOCK_RAW).As("route").Named("a netlink socket"),
			Dup3(Slot("route"), Int(20), unix.O_CLOEXEC).Named("give it a number"),
			Sendfds(Int(4), []int{20, 20}).Named("hand it over"),
			WaitGate(Int(3), GateNetwork),
			UnblockSignals().Named("unblock signals"),
			Execve("/bin/sleep", []string{"sleep", "60"}, nil).Named("execute"),
		},
	}
}

// What the child made inside its namespace arrives, and is of that namespace.
func TestHandover(t *testing.T) {
	defer leaks(t)()
	r := &receiver{}
	p := start(t, NewSpawner(), handoverPlan(r))
	defer p.Close()
	if len(r.fds) != 2 {
		t.Fatalf("%d fds arrived", len(r.fds))
	}
	defer closeAll(r.fds...)
	netns, err := unix.IoctlRetInt(r.fds[0], unix.SIOCGSKNS)
	if err != nil {
		t.Fatal("SIOCGSKNS: ", err)
	}
	defer unix.Close(netns)
	got, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", netns))
	child, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.PID))
	own, _ := os.Readlink("/proc/self/ns/net")
	if got != child || got == own || got == "" {
		t.Errorf("the socket is of %q; the child's namespace is %q, ours %q", got, child, own)
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// A network that can't be had ends the start before the program runs, and every
// failing step leaves nothing.
func TestHandoverFails(t *testing.T) {
	defer leaks(t)()
	s := NewSpawner()
	r := &receiver{refuse: unix.EADDRINUSE}
	_, _, err := s.Start(context.Background(), handoverPlan(r))
	closeAll(r.fds...)
	if !errors.Is(err, unix.EADDRINUSE) {
		t.Error(err)
	}
	plan := handoverPlan(&receiver{})
	for i := range plan.Child[:len(plan.Child)-1] {
		r := &receiver{}
		plan := handoverPlan(r)
		plan.Fault = &Fault{Lane: LaneChild, Step: i, Errno: unix.EIO}
		_, _, err := s.Start(context.Background(), plan)
		closeAll(r.fds...)
		if !errors.Is(err, unix.EIO) {
			t.Errorf("step %d %q: %v", i+1, plan.Child[i].Name, err)
		}
	}
	for i := range plan.Host[:len(plan.Host)-1] {
		r := &receiver{socket: -1}
		plan := handoverPlan(r)
		plan.Fault = &Fault{Lane: LaneHost, Step: i, Errno: unix.EIO}
		_, _, err := s.Start(context.Background(), plan)
		if r.fds == nil {
			closeAll(r.socket)
		}
		closeAll(r.fds...)
		if !errors.Is(err, unix.EIO) {
			t.Errorf("host step %d %q: %v", i+1, plan.Host[i].Name, err)
		}
	}
}

// The reference interpreter, and a step that went through JSON, send the same.
func TestSendfdsInterpreted(t *testing.T) {
	defer leaks(t)()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(pair[0])
	text, err := json.Marshal(Program{Sendfds(Slot("socket"), []int{pair[0], pair[1], pair[0]})})
	var p Program
	if err = errors.Join(err, json.Unmarshal(text, &p)); err != nil {
		t.Fatal(err)
	}
	if r := reference(t, p, map[string]uint64{"socket": uint64(pair[1])}, nil); r[0].Ret != 0 {
		t.Error(r[0].Errno())
	}
	unix.Close(pair[1])
	r := &receiver{socket: pair[0]}
	if r.socket, err = unix.Dup(pair[0]); err != nil {
		t.Fatal(err)
	}
	if err := r.Ready(context.Background()); err != nil || len(r.fds) != 3 {
		t.Error(r.fds, err)
	}
	closeAll(r.fds...)
}

func ExampleSendfds() {
	fmt.Println(Sendfds(Slot(Handover), []int{20, 21}))
	// Output: sendmsg(handover, {msg_iovlen=0, msg_control=[{SCM_RIGHTS, [20, 21]}]}, MSG_NOSIGNAL) == 0
}

// The socket comes before the child, the network behind it.
func TestHandoverOrder(t *testing.T) {
	late := handoverPlan(&receiver{})
	late.Host[1], late.Host[2] = late.Host[2], late.Host[1]
	early := handoverPlan(&receiver{})
	early.Host[3], early.Host[4] = early.Host[4], early.Host[3]
	for _, p := range []*Plan{late, early} {
		var invalid *InvalidError
		if err := p.Validate(); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "bug") {
			t.Error(err)
		}
	}
}
