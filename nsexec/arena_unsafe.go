package nsexec

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An arena is all the memory that a child touches: one private mapping outside
// the Go heap, which no garbage collector moves or frees.
//
//	header | instrs (step by step, with their result cells) | words | data | stack
//
// It is given back only after the kernel has cleared header.tid, which it does
// when the child gave the shared memory up: at its execve or its death.
type arena struct {
	mem      []byte
	pool     *memories // where mem goes back to
	head     *header
	code     []instr // one per step, then the closing exit_group
	skip     int     // steps before the program's own (see fallback.go)
	canceled atomic.Bool
	words    []uint64
	slots    map[string]*uint64
}

// instr is one encoded step. The interpreters of both architectures read it by
// the offsets in go_asm.h. Every argument is the address of a word, a constant's
// or an earlier result's: the interpreter needs no case for slots.
type instr struct {
	nr     uint64
	args   [6]uintptr
	inject int64 // fault injection: non-zero is the result, and no call is made
	exact  uint64
	want   int64
	allow  [maxAllowed]int64
	ret    int64 // the result cell
	start  uint64
	end    uint64
}

// pending marks a result cell whose call has not returned. No call returns it.
const pending = int64(-1) << 62

const stackSize = 4096 // never touched by the interpreters; there for a stray debugger

// load lays a program out, behind the steps before. inputs are the values of
// the slots that the host lane filled.
func load(pool *memories, p Program, inputs map[string]uint64, before ...Step) (*arena, error) {
	if len(before) > 0 {
		p = append(Program(before), p...)
	}
	codeSize := (len(p) + 1) * int(unsafe.Sizeof(instr{}))
	wordCount, dataSize := measure(p)
	wordCount += len(inputs) + 1
	codeAt := align(int(unsafe.Sizeof(header{})), 64)
	wordsAt := align(codeAt+codeSize, 64)
	dataAt := wordsAt + 8*wordCount
	size := align(dataAt+dataSize, 16) + stackSize
	mem, err := pool.get(size)
	if err != nil {
		return nil, err
	}
	base := unsafe.Pointer(&mem[0])
	a := &arena{
		mem:   mem,
		pool:  pool,
		head:  (*header)(base),
		code:  unsafe.Slice((*instr)(unsafe.Add(base, codeAt)), len(p)+1),
		words: unsafe.Slice((*uint64)(unsafe.Add(base, wordsAt)), wordCount)[:0],
		skip:  len(before),
		slots: make(map[string]*uint64, len(inputs)+8),
	}
	for name, v := range inputs {
		a.slots[name] = a.word(v)
	}
	a.encode(p, mem[dataAt:dataAt+dataSize])
	return a, nil
}

func align(n, to int) int { return (n + to - 1) &^ (to - 1) }

// measure counts the constant words and the bytes that a program's arguments need.
func measure(p Program) (words, bytes int) {
	for _, s := range p {
		words += len(s.Args)
		for _, a := range s.Args {
			switch a.Kind {
			case KindStr:
				bytes += align(len(a.Text)+1, 8)
			case KindBytes:
				bytes += align(len(a.data()), 8) + align(len(a.inner()), 8)
				for _, r := range a.refs() {
					bytes += align(len(r)+1, 8)
				}
			}
		}
	}
	return words, bytes
}

func (a *arena) encode(p Program, data []byte) {
	zero := address(a.word(0))
	for i, s := range p {
		in := &a.code[i]
		*in = instr{nr: uint64(s.Call), ret: pending}
		for k := range in.args {
			in.args[k] = zero
		}
		for k, arg := range s.Args {
			in.args[k] = a.argument(arg, &data)
		}
		if s.Policy.Exact {
			in.exact, in.want = 1, s.Policy.Result
		}
		for k, e := range s.Policy.Allowed {
			in.allow[k] = -int64(e)
		}
		if s.Save != "" {
			a.slots[s.Save] = (*uint64)(unsafe.Pointer(&in.ret))
		}
	}
	last := &a.code[len(p)]
	*last = instr{nr: unix.SYS_EXIT_GROUP, ret: pending}
	for k := range last.args {
		last.args[k] = zero
	}
}

// argument places one argument and returns the address of the word that holds it.
func (a *arena) argument(arg Arg, data *[]byte) uintptr {
	switch arg.Kind {
	case KindSlot:
		return address(a.slots[arg.Text])
	case KindStr:
		return address(a.word(uint64(putString(arg.Text, data))))
	case KindBytes:
		at := take(len(arg.data()), data)
		copy(at, arg.data())
		for i, r := range arg.refs() {
			*(*uint64)(unsafe.Pointer(&at[8*i])) = uint64(putString(r, data))
		}
		if len(at) == 0 {
			return address(a.word(0))
		}
		if inner := arg.inner(); len(inner) > 0 {
			block := take(len(inner), data)
			copy(block, inner)
			*(*uint64)(unsafe.Pointer(&at[8*arg.Memory.At])) = uint64(address(&block[0]))
		}
		return address(a.word(uint64(uintptr(unsafe.Pointer(&at[0])))))
	}
	return address(a.word(arg.Value))
}

func (a *arena) word(v uint64) *uint64 {
	a.words = append(a.words, v) // within the capacity that measure counted
	return &a.words[len(a.words)-1]
}

func take(n int, data *[]byte) []byte {
	at := (*data)[:n:n]
	*data = (*data)[align(n, 8):]
	return at
}

func putString(s string, data *[]byte) uintptr {
	at := take(len(s)+1, data)
	at[copy(at, s)] = 0
	return uintptr(unsafe.Pointer(&at[0]))
}

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// results copies the result cells out.
func (a *arena) results() []Result {
	out := make([]Result, len(a.code)-1-a.skip)
	for i := range out {
		c := &a.code[a.skip+i]
		out[i] = Result{Ret: c.ret, Start: c.start, End: c.end, Ran: c.ret != pending, Started: c.start != 0}
	}
	return out
}

// free gives the memory back. Only after awaitRelease.
func (a *arena) free() {
	if a != nil && a.mem != nil {
		a.pool.put(a.mem)
		a.mem, a.head, a.code, a.words = nil, nil, nil, nil
	}
}
