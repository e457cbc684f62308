package nsexec

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawCall makes one step's call. The memory that the arguments point to is the
// Go heap's: it doesn't move, and memory keeps it alive over the call.
func rawCall(s Step, slots map[string]uint64) int64 {
	var args [6]uintptr
	var memory [][]byte
	pointer := func(data []byte) uintptr {
		if len(data) == 0 {
			return 0
		}
		memory = append(memory, data)
		return uintptr(unsafe.Pointer(&data[0]))
	}
	for i, a := range s.Args {
		switch a.Kind {
		case KindSlot:
			args[i] = uintptr(slots[a.Text])
		case KindStr:
			args[i] = pointer(cString(a.Text))
		case KindBytes:
			data := append([]byte(nil), a.data()...)
			for k, ref := range a.refs() {
				*(*uint64)(unsafe.Pointer(&data[8*k])) = uint64(pointer(cString(ref)))
			}
			if inner := a.inner(); len(inner) > 0 {
				*(*uint64)(unsafe.Pointer(&data[8*a.Memory.At])) = uint64(pointer(append([]byte(nil), inner...)))
			}
			args[i] = pointer(data)
		default:
			args[i] = uintptr(a.Value)
		}
	}
	ret, _, errno := unix.RawSyscall6(uintptr(s.Call), args[0], args[1], args[2], args[3], args[4], args[5])
	runtime.KeepAlive(memory)
	if errno != 0 {
		return -int64(errno)
	}
	return int64(ret)
}

func cString(s string) []byte { return append([]byte(s), 0) }
