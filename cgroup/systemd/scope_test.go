package systemd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// refusing listens as a manager's private socket does, speaks the protocol, and
// answers every call with an error.
func refusing(t *testing.T, name, text string) (socket string) {
	t.Helper()
	socket = t.TempDir() + "/private"
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if r := authenticate(conn); r != nil {
					answerAll(conn, r, name, text)
				}
			}()
		}
	}()
	return socket
}

// authenticate is the server's half of the handshake (D-Bus specification, "Authentication Protocol").
func authenticate(conn net.Conn) *bufio.Reader {
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil
		}
		switch line = strings.Trim(line, "\x00\r\n"); {
		case line == "AUTH":
			fmt.Fprint(conn, "REJECTED EXTERNAL\r\n")
		case strings.HasPrefix(line, "AUTH EXTERNAL"):
			fmt.Fprint(conn, "OK 0123456789abcdef0123456789abcdef\r\n")
		case line == "NEGOTIATE_UNIX_FD":
			fmt.Fprint(conn, "ERROR\r\n")
		case line == "BEGIN":
			return r
		}
	}
}

func answerAll(conn net.Conn, r *bufio.Reader, name, text string) {
	for {
		call, err := dbus.DecodeMessage(r)
		if err != nil {
			return
		}
		answer := dbus.Message{Type: dbus.TypeError, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldErrorName: dbus.MakeVariant(name), dbus.FieldReplySerial: dbus.MakeVariant(call.Serial()),
			dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf("")),
		}, Body: []any{text}}
		var b bytes.Buffer
		if answer.EncodeTo(&b, binary.LittleEndian) != nil {
			return
		}
		binary.LittleEndian.PutUint32(b.Bytes()[8:], 1) // the message's own serial
		conn.Write(b.Bytes())
	}
}

// A manager that refuses to attach a process: the error names the call and the
// bus's own error (systemd/systemd#40269).
func TestRefused(t *testing.T) {
	const name, text = "org.freedesktop.DBus.Error.AccessDenied", "Refusing to attach process"
	socket := refusing(t, name, text)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := Start(ctx, Scope{Unit: "wolffia-1-a.scope", PIDs: []uint32{1}, User: true, Socket: socket})
	var fault *Error
	var bus dbus.Error
	if !errors.As(err, &fault) || fault.Call != "StartTransientUnit" || !errors.As(err, &bus) || bus.Name != name || !strings.Contains(err.Error(), text) {
		t.Errorf("%v", err)
	}
}

// The program that wolffia executes says the same, and fails.
func TestProgramRefused(t *testing.T) {
	bin := os.Getenv("WOLFFIA_BIN")
	if bin == "" {
		if os.Getenv("WOLFFIA_MUST_RUN") != "" {
			t.Fatal("WOLFFIA_MUST_RUN is set, but missing: WOLFFIA_BIN, the built programs")
		}
		t.Skip("missing: WOLFFIA_BIN, the built programs")
	}
	socket := refusing(t, "org.freedesktop.DBus.Error.AccessDenied", "Refusing to attach process")
	out, err := exec.Command(bin+"-scope", "--user", "--unit", "wolffia-1-a.scope", "--pid", "1", "--socket", socket).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "StartTransientUnit wolffia-1-a.scope: org.freedesktop.DBus.Error.AccessDenied: Refusing") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.Command(bin+"-scope", "--unit", "x").CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNobodyListens(t *testing.T) {
	_, err := Start(t.Context(), Scope{Unit: "x.scope", Socket: t.TempDir() + "/private"})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// A manager that never answers doesn't hold the caller beyond its patience.
func TestSilent(t *testing.T) {
	socket := t.TempDir() + "/private"
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Scope{Unit: "x.scope", Socket: socket}); err == nil {
		t.Error("a scope by nobody")
	}
}
