package nsexec

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Kind says what an argument is and how it reaches the kernel.
type Kind string

const (
	KindInt   Kind = "int"   // a number, passed as it is
	KindFlags Kind = "flags" // a number with a symbolic form
	KindStr   Kind = "str"   // a pointer to a NUL-terminated string
	KindBytes Kind = "bytes" // a pointer to a structure or buffer
	KindSlot  Kind = "slot"  // the result of an earlier step
)

// An Arg is one argument of a system call. Build it with Int, Flags, Const,
// Str, Bytes, Strs or Slot.
type Arg struct {
	Kind  Kind
	Value uint64   // KindInt, KindFlags
	Text  string   // symbolic form, the string itself, or the slot's name
	Data  []byte   // KindBytes
	Refs  []string // KindBytes: strings whose addresses fill Data, with NULL behind them (argv)
}

// Int is a plain number.
func Int[T ~int | ~int64 | ~uint32 | ~uint64 | ~uintptr](v T) Arg {
	return Arg{Kind: KindInt, Value: uint64(v)}
}

// Const is one named constant.
func Const(name string, v uint64) Arg { return Arg{Kind: KindFlags, Value: v, Text: name} }

// Flags is a set of bits, printed by their names.
func Flags(names FlagNames, v uint64) Arg {
	return Arg{Kind: KindFlags, Value: v, Text: names.Text(v)}
}

// Mode is a file mode, printed in octal.
func Mode(v uint32) Arg { return Const("0"+strconv.FormatUint(uint64(v), 8), uint64(v)) }

// Str is a path or another string.
func Str(s string) Arg { return Arg{Kind: KindStr, Text: s} }

// Null is the null pointer.
func Null() Arg { return Const("NULL", 0) }

// Bytes is a structure or a buffer; text is its printed form.
func Bytes(text string, data []byte) Arg { return Arg{Kind: KindBytes, Text: text, Data: data} }

// Words is a structure made of 64-bit fields in native byte order.
func Words(text string, words ...uint64) Arg {
	data := make([]byte, 0, 8*len(words))
	for _, w := range words {
		data = binary.NativeEndian.AppendUint64(data, w)
	}
	return Bytes(text, data)
}

// Strs is a NULL-terminated array of strings: argv or envp.
func Strs(list []string) Arg {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(s)
	}
	return Arg{Kind: KindBytes, Text: "[" + strings.Join(quoted, ", ") + "]", Refs: list, Data: make([]byte, 8*(len(list)+1))}
}

// Slot is what an earlier step, or the host lane, left under this name.
func Slot(name string) Arg { return Arg{Kind: KindSlot, Text: name} }

// String is the argument as explain prints it.
func (a Arg) String() string {
	switch {
	case a.Kind == KindStr:
		return strconv.Quote(a.Text)
	case a.Kind == KindInt:
		return strconv.FormatInt(int64(a.Value), 10)
	}
	return a.Text
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
