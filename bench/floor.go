package bench

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"

	"wolffia.dev/nsexec"
)

// The fixed parts of the floors: floorHead stands before what FloorSource
// writes, floorTail behind it, and floorEntry at the end.
//
//go:embed floor/head.c
var floorHead string

//go:embed floor/floor.c
var floorTail string

//go:embed floor/entry.c
var floorEntry string

// FloorSource is the plan as a C program that makes the same system calls in
// both lanes and nothing else. It is freestanding: compiled with -ffreestanding
// -nostdlib it has no start-up code either; compiled with a C library it does
// the same behind that library's start. Only amd64 and arm64.
func FloorSource(plan *nsexec.Plan) ([]byte, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	w := &floorWriter{slots: map[string]int{}}
	w.slotsOf(plan)
	w.child(plan.Child)
	w.host(plan.Host)
	if w.err != nil {
		return nil, w.err
	}
	var out bytes.Buffer
	out.WriteString(floorHead)
	fmt.Fprintf(&out, "\nstatic long slot[%d];\n%s\n", len(w.slots)+1, w.data.String())
	out.WriteString("static void child(void *unused)\n{\n\tlong r;\n" + w.childBody.String() + "}\n\n")
	out.WriteString(floorTail[:strings.Index(floorTail, floorMain)])
	out.WriteString("static void host(void)\n{\n" + w.hostBody.String() + "}\n\n" + w.inputs() + "\n")
	out.WriteString(floorTail[strings.Index(floorTail, floorMain):] + "\n" + floorEntry)
	return out.Bytes(), nil
}

// floorMain begins the part of floor.c that calls host().
const floorMain = "/* one makes a container"

// floorWriter collects the parts of the program while it walks a plan.
type floorWriter struct {
	slots     map[string]int
	fds       []string // slots of the host lane, which it closes at the end
	count     int      // names given to data
	data      strings.Builder
	childBody strings.Builder
	hostBody  strings.Builder
	err       error
}

// slotsOf numbers every slot of both lanes.
func (w *floorWriter) slotsOf(plan *nsexec.Plan) {
	add := func(name string) {
		if _, known := w.slots[name]; name != "" && !known {
			w.slots[name] = len(w.slots)
		}
	}
	for _, h := range plan.Host {
		switch h.Op {
		case nsexec.OpPipe:
			add(nsexec.Lifeline)
			w.fds = append(w.fds, nsexec.Lifeline)
		case nsexec.OpOpenTree:
			add(h.Save)
			w.fds = append(w.fds, h.Save)
		}
	}
	for _, s := range plan.Child {
		add(s.Save)
	}
}

// child writes one call for each step, and the test of its policy.
func (w *floorWriter) child(p nsexec.Program) {
	for i, s := range p {
		args := make([]string, 6)
		for k := range args {
			args[k] = "0"
			if k < len(s.Args) {
				args[k] = w.arg(s.Args[k])
			}
		}
		fmt.Fprintf(&w.childBody, "\t/* %d %s: %s */\n", i+1, comment(s.Name), comment(s.String()))
		fmt.Fprintf(&w.childBody, "\tr = sys(%d, %s);\n", uint64(s.Call), strings.Join(args, ", "))
		fmt.Fprintf(&w.childBody, "\tif (%s)\n\t\tstop(%d, r);\n", refusal(s.Policy), i+1)
		if s.Save != "" {
			fmt.Fprintf(&w.childBody, "\tslot[%d] = r;\n", w.slots[s.Save])
		}
	}
	fmt.Fprintf(&w.childBody, "\tstop(%d, 0);\n", len(p)+1)
}

// refusal is the C condition under which a result ends the child.
func refusal(p nsexec.Policy) string {
	if p.Exact {
		return fmt.Sprintf("r != %d", p.Result)
	}
	test := "is_errno(r)"
	for _, e := range p.Allowed {
		test += fmt.Sprintf(" && r != -%d", int(e))
	}
	return test
}

// arg is an argument as a C expression; what it points to becomes static data.
func (w *floorWriter) arg(a nsexec.Arg) string {
	switch a.Kind {
	case nsexec.KindSlot:
		return fmt.Sprintf("slot[%d]", w.slots[a.Text])
	case nsexec.KindStr:
		return "(long)" + quote(a.Text)
	case nsexec.KindBytes:
		if a.Memory.Refs != nil {
			return "(long)" + w.array(a.Memory.Refs)
		}
		return w.bytes(a.Memory.Data)
	}
	return fmt.Sprintf("(long)%#xUL", a.Value)
}

func (w *floorWriter) name(kind string) string {
	w.count++
	return fmt.Sprintf("%s%d", kind, w.count)
}

// array is a NULL-terminated array of strings.
func (w *floorWriter) array(list []string) string {
	name := w.name("strings")
	fmt.Fprintf(&w.data, "static const char *%s[] = { ", name)
	for _, s := range list {
		w.data.WriteString(quote(s) + ", ")
	}
	w.data.WriteString("0 };\n")
	return name
}

// bytes is a structure or buffer, which the kernel may write to.
func (w *floorWriter) bytes(data []byte) string {
	if len(data) == 0 {
		return "0"
	}
	name := w.name("bytes")
	fmt.Fprintf(&w.data, "static unsigned char %s[] __attribute__((aligned(8))) = { ", name)
	for _, b := range data {
		fmt.Fprintf(&w.data, "%d, ", b)
	}
	w.data.WriteString("};\n")
	return "(long)" + name
}

// quote is a C string literal; escapes are octal and three digits long, so that
// no following character can join them.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '?' {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// comment is text that can't end a C comment.
func comment(s string) string {
	s = strings.NewReplacer("*/", "* /", "/*", "/ *", "\n", " ").Replace(s)
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}
