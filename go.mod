module wolffia.dev

go 1.26.0

require (
	github.com/coreos/go-systemd/v22 v22.7.0
	github.com/godbus/dbus/v5 v5.2.4
	github.com/opencontainers/runtime-spec v1.3.0
	golang.org/x/sys v0.50.0
)
