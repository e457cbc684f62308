// Package systemd asks a systemd manager for a scope: a cgroup that is made
// around processes that exist already, with everything below it delegated to
// who asked (org.freedesktop.systemd1(5), systemd.scope(5), and "Control Group
// APIs and Delegation" at systemd.io).
//
// Only the manager can move a process out of a login session's scope: for the
// user's manager, which couldn't either, the system's does it.
//
// D-Bus costs a program's start as much as half a container, so what starts
// containers doesn't link this package: cmd/wolffia-scope does, and is executed
// when a scope is needed.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// A Scope is what is asked for.
type Scope struct {
	Unit        string // "wolffia-1-2.scope"
	Description string
	PIDs        []uint32
	User        bool   // the user's manager, not the system's
	Socket      string // where to reach it: the manager's private socket, or a bus
}

// Error is a call that failed. It unwraps to the bus's error (dbus.Error).
type Error struct {
	Call   string // "StartTransientUnit"
	Unit   string
	Result string // of the job, when the call itself went well: "failed"
	Err    error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("systemd: %s %s: the job ended with %q", e.Call, e.Unit, e.Result)
	}
	var bus dbus.Error
	if errors.As(e.Err, &bus) {
		return fmt.Sprintf("systemd: %s %s: %s: %s", e.Call, e.Unit, bus.Name, e.Err)
	}
	return fmt.Sprintf("systemd: %s %s: %s", e.Call, e.Unit, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Start has the manager start the scope with Delegate=yes, and waits until the
// processes are in it. It gives the scope's cgroup, as a path below the root of
// the hierarchy. An error is an *Error.
func Start(ctx context.Context, s Scope) (cgroup string, err error) {
	conn, err := sd.NewConnection(func() (*dbus.Conn, error) { return s.dial(ctx) })
	if err != nil {
		return "", &Error{Call: "connect " + s.Socket, Unit: s.Unit, Err: err}
	}
	defer conn.Close()
	done := make(chan string, 1)
	if _, err := conn.StartTransientUnitContext(ctx, s.Unit, "fail", s.properties(), done); err != nil {
		return "", &Error{Call: "StartTransientUnit", Unit: s.Unit, Err: err}
	}
	select {
	case result := <-done:
		if result != "done" {
			return "", &Error{Call: "StartTransientUnit", Unit: s.Unit, Result: result}
		}
	case <-ctx.Done():
		return "", &Error{Call: "StartTransientUnit", Unit: s.Unit, Err: ctx.Err()}
	}
	property, err := conn.GetUnitTypePropertyContext(ctx, s.Unit, "Scope", "ControlGroup")
	if err != nil {
		return "", &Error{Call: "ControlGroup", Unit: s.Unit, Err: err}
	}
	cgroup, ok := property.Value.Value().(string)
	if !ok || !strings.HasPrefix(cgroup, "/") {
		return "", &Error{Call: "ControlGroup", Unit: s.Unit, Err: fmt.Errorf("%v is no cgroup", property.Value)}
	}
	return cgroup, nil
}

func (s Scope) slice() string {
	if s.User {
		return "app.slice"
	}
	return "system.slice"
}

// properties: CollectMode has systemd forget the unit after an OOM kill too, or
// its name could not be used again (containers/crun#1092).
func (s Scope) properties() []sd.Property {
	return []sd.Property{
		sd.PropDescription(s.Description),
		sd.PropSlice(s.slice()),
		sd.PropPids(s.PIDs...),
		{Name: "Delegate", Value: dbus.MakeVariant(true)},
		{Name: "CollectMode", Value: dbus.MakeVariant("inactive-or-failed")},
		{Name: "DefaultDependencies", Value: dbus.MakeVariant(false)},
	}
}

// dial connects to the socket. On the manager's own there is no bus to say
// Hello to.
func (s Scope) dial(ctx context.Context) (*dbus.Conn, error) {
	conn, err := dbus.Dial("unix:path="+dbus.EscapeBusAddressValue(s.Socket), dbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && !strings.HasSuffix(s.Socket, "/private") {
		err = conn.Hello()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
