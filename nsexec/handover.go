package nsexec

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// What the child makes inside its namespaces and somebody outside is to have, a
// TUN device, say, goes over a socket pair as SCM_RIGHTS (unix(7)). A shared fd
// table would be quicker, but would have the child hold the lifeline's other end.

// Sendfds is sendmsg(2) of an empty message that carries fds, given by number: a
// structure of the program can't hold the result of a step, so dup3 has put each
// at a number of its own. socket is of type SOCK_SEQPACKET. More than 253 fds
// (SCM_MAX_FD) are EINVAL.
func Sendfds(socket Arg, fds []int) Step {
	control := binary.NativeEndian.AppendUint64(nil, uint64(unix.CmsgLen(4*len(fds))))
	control = binary.NativeEndian.AppendUint32(control, unix.SOL_SOCKET)
	control = binary.NativeEndian.AppendUint32(control, unix.SCM_RIGHTS)
	for _, fd := range fds {
		control = binary.NativeEndian.AppendUint32(control, uint32(fd))
	}
	control = append(control, make([]byte, unix.CmsgSpace(4*len(fds))-len(control))...)
	const controlWord, lengthWord = 4, 5 // of struct msghdr on 64-bit machines
	head := make([]byte, 56)
	binary.NativeEndian.PutUint64(head[8*lengthWord:], uint64(len(control)))
	text := "{msg_iovlen=0, msg_control=[{SCM_RIGHTS, " + strings.Join(strings.Fields(fmt.Sprint(fds)), ", ") + "}]}"
	message := Arg{Kind: KindBytes, Text: text, Memory: &Memory{Data: head, Inner: control, At: controlWord}}
	s := call(unix.SYS_SENDMSG, socket, message, Const("MSG_NOSIGNAL", unix.MSG_NOSIGNAL)).Expect(0)
	s.Man = "sendmsg(2), unix(7)"
	return s
}

// socket makes the pair: the child's end is a slot, ours waits for OpNetwork.
func (l *launch) socket() (int64, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socketpair", err)
	}
	child, err1 := moveAbove(pair[0])
	ours, err2 := moveHigh(pair[1])
	if err := errors.Join(err1, err2); err != nil {
		closeAll(child, ours)
		return 0, err
	}
	l.inputs[Handover], l.handover = uint64(child), ours
	return int64(child), nil
}

func closeAll(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

var errNoNetwork = errors.New("the plan has no Network (this is a bug)")

// network starts the Network. Both ends are others' from here on: when the child
// and the Network are gone, so is the pair.
func (l *launch) network(ctx context.Context) error {
	if l.plan.Network == nil {
		return errNoNetwork
	}
	err := l.plan.Network.Start(ctx, l.handover, l.child)
	closeAll(l.handover, int(l.inputs[Handover]))
	l.handover = -1
	delete(l.inputs, Handover)
	return err
}

func (l *launch) ready(ctx context.Context) error {
	if l.plan.Network == nil {
		return errNoNetwork
	}
	return l.plan.Network.Ready(ctx)
}
