package nsexec

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Kind says what an argument is and how it reaches the kernel.
type Kind uint8

const (
	KindInt   Kind = iota // a number, passed as it is
	KindFlags             // a number with a symbolic form
	KindStr               // a pointer to a NUL-terminated string
	KindBytes             // a pointer to a structure or buffer
	KindSlot              // the result of an earlier step
)

// An Arg is one argument of a system call. Build it with Int, Flags, Const,
// Str, Bytes, Words, Strs or Slot. Its printed form is made only when somebody
// prints it: a start makes some 700 arguments and prints none.
type Arg struct {
	Kind   Kind
	Value  uint64 // KindInt, KindFlags
	Text   string // the string itself, the slot's name, or a constant's
	Memory *Memory
	names  *FlagNames
}

// Memory is what a KindBytes argument points to.
type Memory struct {
	Data []byte
	Refs []string // strings whose addresses fill Data, with NULL behind them: argv
	form func([]byte) string

	Inner []byte // a second block, whose address is put into Data's 64-bit word number At
	At    int
}

// Int is a plain number.
func Int[T ~int | ~int64 | ~uint32 | ~uint64 | ~uintptr](v T) Arg {
	return Arg{Kind: KindInt, Value: uint64(v)}
}

// Const is one named constant.
func Const(name string, v uint64) Arg { return Arg{Kind: KindFlags, Value: v, Text: name} }

// Flags is a set of bits, printed by their names.
func Flags(names *FlagNames, v uint64) Arg {
	return Arg{Kind: KindFlags, Value: v, names: names}
}

// Mode is a file mode, printed in octal.
func Mode(v uint32) Arg { return Const("0"+strconv.FormatUint(uint64(v), 8), uint64(v)) }

// Str is a path or another string.
func Str(s string) Arg { return Arg{Kind: KindStr, Text: s} }

// Null is the null pointer.
func Null() Arg { return Const("NULL", 0) }

// Bytes is a structure or a buffer; text is its printed form.
func Bytes(text string, data []byte) Arg {
	return Arg{Kind: KindBytes, Text: text, Memory: &Memory{Data: data}}
}

// Words is a structure made of 64-bit fields in native byte order, and form
// prints it.
func Words(form func(data []byte) string, words ...uint64) Arg {
	m := &struct {
		Memory
		room [32]byte
	}{}
	m.Data, m.form = m.room[:0], form
	for _, w := range words {
		m.Data = binary.NativeEndian.AppendUint64(m.Data, w)
	}
	return Arg{Kind: KindBytes, Memory: &m.Memory}
}

// literal is the form of a structure whose text doesn't depend on its bytes.
func literal(text string) func([]byte) string { return func([]byte) string { return text } }

// word is the i-th 64-bit field of a structure.
func word(data []byte, i int) uint64 { return binary.NativeEndian.Uint64(data[8*i:]) }

// Strs is a NULL-terminated array of strings: argv or envp.
func Strs(list []string) Arg {
	return Arg{Kind: KindBytes, Memory: &Memory{Refs: list, Data: make([]byte, 8*(len(list)+1))}}
}

// Slot is what an earlier step, or the host lane, left under this name.
func Slot(name string) Arg { return Arg{Kind: KindSlot, Text: name} }

func (a Arg) data() []byte {
	if a.Memory == nil {
		return nil
	}
	return a.Memory.Data
}

func (a Arg) inner() []byte {
	if a.Memory == nil {
		return nil
	}
	return a.Memory.Inner
}

func (a Arg) refs() []string {
	if a.Memory == nil {
		return nil
	}
	return a.Memory.Refs
}

// String is the argument as explain prints it.
func (a Arg) String() string {
	switch {
	case a.Kind == KindStr:
		return strconv.Quote(a.Text)
	case a.Kind == KindInt:
		return strconv.FormatInt(int64(a.Value), 10)
	case a.Text != "":
		return a.Text
	case a.names != nil:
		return a.names.Text(a.Value)
	case a.Memory != nil && a.Memory.form != nil:
		return a.Memory.form(a.Memory.Data)
	case a.Kind == KindBytes:
		return quoted(a.refs())
	}
	return a.Text
}

func quoted(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// FlagNames is the symbolic vocabulary of one flag argument.
type FlagNames []FlagName

// FlagName is one bit (or bit group) and its UAPI name.
type FlagName struct {
	Bits uint64
	Name string
}

// Text renders v as NAME|NAME|0xrest, or "0".
func (names FlagNames) Text(v uint64) string {
	var parts []string
	for _, f := range names {
		if f.Bits != 0 && v&f.Bits == f.Bits {
			parts = append(parts, f.Name)
			v &^= f.Bits
		}
	}
	if v != 0 {
		parts = append(parts, fmt.Sprintf("%#x", v))
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, "|")
}
