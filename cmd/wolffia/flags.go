package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"wolffia.dev/container"
	"wolffia.dev/userns"
)

// request is a command line as it was understood.
type request struct {
	spec *specs.Spec
	opts container.Options

	result    string // --result FILE|FD
	output    string // --output FILE|FD: trace's table
	json      bool
	facts     string // --facts FILE
	factsSave string
	topic     string
	mechanism string // --mechanism: of --topic userns
}

// words are the flags before they are joined to a spec.
type words struct {
	verb                                     string
	bundle, rootfs, upper                    string
	lower, env, volumes, tmpfs, share        []string
	capAdd, capDrop, ulimits, uidMap, gidMap []string
	mapping, hostname, cwd, user, shmSize    string
	readOnly, keepGroups                     bool
	preserveFDs                              int
	limit                                    limitFlags
	request
}

// list is a flag that may be given several times.
func list(to *[]string) func(string) error {
	return func(v string) error { *to = append(*to, v); return nil }
}

// flagSet declares the flags of run, explain and trace: the one place where
// they are listed. The standard library's parser stops at the first word that
// isn't a flag, and costs nothing at start.
func (w *words) flagSet() *flag.FlagSet {
	f := flag.NewFlagSet(w.verb, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&w.bundle, "bundle", "", "")
	f.StringVar(&w.rootfs, "rootfs", "host", "")
	f.Func("lower", "", list(&w.lower))
	f.StringVar(&w.upper, "upper", "", "")
	f.BoolVar(&w.readOnly, "read-only", false, "")
	f.StringVar(&w.mapping, "map", "auto", "")
	f.Func("uid-map", "", list(&w.uidMap))
	f.Func("gid-map", "", list(&w.gidMap))
	f.BoolVar(&w.keepGroups, "keep-groups", false, "")
	f.StringVar(&w.user, "user", "", "")
	f.StringVar(&w.user, "u", "", "")
	f.StringVar(&w.hostname, "hostname", "", "")
	f.Func("env", "", list(&w.env))
	f.Func("e", "", list(&w.env))
	f.StringVar(&w.cwd, "workdir", "", "")
	f.StringVar(&w.cwd, "w", "", "")
	f.Func("volume", "", list(&w.volumes))
	f.Func("v", "", list(&w.volumes))
	f.Func("tmpfs", "", list(&w.tmpfs))
	f.StringVar(&w.shmSize, "shm-size", "", "")
	f.Func("share", "", list(&w.share))
	f.Func("cap-add", "", list(&w.capAdd))
	f.Func("cap-drop", "", list(&w.capDrop))
	f.Func("ulimit", "", list(&w.ulimits))
	f.IntVar(&w.preserveFDs, "preserve-fds", 0, "")
	w.limit.declare(f)
	if w.verb == "run" || w.verb == "trace" {
		f.StringVar(&w.result, "result", "", "")
	}
	if w.verb == "trace" {
		f.StringVar(&w.output, "output", "", "")
	}
	if w.verb != "run" {
		f.BoolVar(&w.json, "json", false, "")
	}
	if w.verb == "explain" {
		f.StringVar(&w.facts, "facts", "", "")
		f.StringVar(&w.factsSave, "facts-save", "", "")
		f.StringVar(&w.topic, "topic", "", "")
		f.StringVar(&w.mechanism, "mechanism", "", "")
	}
	return f
}

// parse reads the command line of a verb. errHelp asks for its help.
func parse(verb string, args []string) (*request, error) {
	w := &words{verb: verb}
	f := w.flagSet()
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, &usageError{fmt.Sprintf("%s: %s\n  wolffia %s --help lists the flags", verb, flagProblem(err), verb)}
	}
	if w.mechanism != "" && w.topic != "userns" {
		return nil, &usageError{"explain: --mechanism belongs to --topic userns\n  wolffia explain --topic userns --mechanism " + w.mechanism}
	}
	if w.topic != "" {
		return &w.request, nil
	}
	if err := w.build(f); err != nil {
		return nil, err
	}
	if err := w.command(f.Args()); err != nil {
		return nil, err
	}
	return &w.request, nil
}

// flagProblem tells an error of package flag, which writes every flag with
// one dash, in our words.
func flagProblem(err error) string {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return "there is no flag " + dashed(name)
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return dashed(name) + " needs a value"
	}
	if value, ok := strings.CutSuffix(text, " for flag -preserve-fds: parse error"); ok {
		return "--preserve-fds: " + value + ": want a count"
	}
	return text
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// build joins the flags to the default spec or to a bundle's.
func (w *words) build(f *flag.FlagSet) error {
	given := map[string]bool{}
	f.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
	if err := w.root(given); err != nil {
		return err
	}
	for _, step := range []func() error{w.maps, w.process, w.userFlag, w.namespaces, w.mounts, w.caps, w.limits, w.cgroups} {
		if err := step(); err != nil {
			return err
		}
	}
	w.opts.KeepGroups, w.opts.PreserveFDs = w.keepGroups, w.preserveFDs
	if w.preserveFDs < 0 {
		return &usageError{fmt.Sprintf("--preserve-fds %d: a count can't be negative", w.preserveFDs)}
	}
	return nil
}

// root decides where the root comes from.
func (w *words) root(given map[string]bool) error {
	if w.bundle != "" {
		for _, other := range []string{"rootfs", "lower", "upper", "read-only", "cap-add", "cap-drop", "share", "shm-size"} {
			if given[other] {
				return &usageError{"--" + other + " can't go with --bundle: the bundle's config.json says it"}
			}
		}
		spec, err := container.LoadBundle(w.bundle)
		if err != nil {
			return err
		}
		w.spec = spec
		w.opts.Root = container.Root{Kind: container.RootDirect, Path: spec.Root.Path}
		return nil
	}
	w.spec = container.DefaultSpec()
	w.opts.AnyUser = w.user == ""
	switch {
	case w.rootfs == "host" && (w.upper != "" || w.readOnly || len(w.lower) > 0):
		return &usageError{"--upper, --lower and --read-only need --rootfs DIR: the view of this machine is always thrown away"}
	case w.rootfs == "host":
		w.opts.Root = container.Root{Kind: container.RootHost}
		return nil
	case w.readOnly && (w.upper != "" || len(w.lower) > 0):
		return &usageError{"--read-only can't go with --upper or --lower: it shows the one folder as it is"}
	}
	w.opts.Root = container.Root{Kind: container.RootOverlay}
	if w.readOnly {
		w.opts.Root.Kind = container.RootReadOnly
	}
	var err error
	if w.opts.Root.Path, err = absolute("--rootfs", w.rootfs); err != nil {
		return err
	}
	for _, l := range w.lower {
		path, err := absolute("--lower", l)
		if err != nil {
			return err
		}
		w.opts.Root.Lower = append(w.opts.Root.Lower, path)
	}
	if w.upper != "" {
		w.opts.Root.Upper, err = absolute("--upper", w.upper)
	}
	return err
}

func absolute(flag, path string) (string, error) {
	if path == "" {
		return "", &usageError{flag + ": the path is empty"}
	}
	return filepath.Abs(path)
}

func (w *words) maps() error {
	req, err := userns.ParseRequest(w.mapping)
	if err != nil {
		return &usageError{"--map " + w.mapping + ": " + err.Error()}
	}
	w.opts.Map = req
	for flag, texts := range map[string][]string{"--uid-map": w.uidMap, "--gid-map": w.gidMap} {
		if len(texts) == 0 {
			continue
		}
		m, err := userns.ParseExtents(strings.Join(texts, ","))
		if err != nil {
			return &usageError{flag + " " + strings.Join(texts, ",") + ": " + err.Error()}
		}
		if flag == "--uid-map" {
			w.opts.Map.UID = m
		} else {
			w.opts.Map.GID = m
		}
	}
	return nil
}

// process sets environment, working directory and hostname.
func (w *words) process() error {
	if w.spec.Process == nil {
		w.spec.Process = &specs.Process{Cwd: "/"}
	}
	if w.bundle == "" {
		w.spec.Process.Env = append(w.spec.Process.Env, "HOME="+home(w.user))
		if term := os.Getenv("TERM"); term != "" {
			w.spec.Process.Env = append(w.spec.Process.Env, "TERM="+term)
		}
	}
	for _, e := range w.env {
		name, _, has := strings.Cut(e, "=")
		if name == "" {
			return &usageError{"-e " + strconv.Quote(e) + ": want NAME=VALUE, or NAME to pass the caller's on"}
		}
		if value, set := os.LookupEnv(name); !has {
			if !set {
				return &usageError{"-e " + name + ": this variable isn't set here\n  set and export it, or give its value: -e " + name + "=VALUE"}
			}
			e = name + "=" + value
		}
		w.spec.Process.Env = setEnv(w.spec.Process.Env, name, e)
	}
	if w.cwd != "" {
		if !filepath.IsAbs(w.cwd) {
			return &usageError{"-w " + w.cwd + ": the working directory has to be an absolute path in the container"}
		}
		w.spec.Process.Cwd = w.cwd
	}
	if len(w.hostname) > 64 {
		return &usageError{fmt.Sprintf("--hostname: %d bytes, but 64 bytes at most (sethostname(2))\n  take a shorter name", len(w.hostname))}
	}
	if w.hostname != "" {
		w.spec.Hostname = w.hostname
	}
	return nil
}

func home(user string) string {
	if uid, _, _ := strings.Cut(user, ":"); uid == "" || uid == "0" {
		return "/root"
	}
	return "/"
}

func setEnv(env []string, name, entry string) []string {
	for i, e := range env {
		if strings.HasPrefix(e, name+"=") {
			env[i] = entry
			return env
		}
	}
	return append(env, entry)
}

func (w *words) userFlag() error {
	if w.user == "" {
		return nil
	}
	uid, gid, hasGroup := strings.Cut(w.user, ":")
	u, err := strconv.ParseUint(uid, 10, 32)
	g := uint64(0)
	if err == nil && hasGroup {
		g, err = strconv.ParseUint(gid, 10, 32)
	}
	if err != nil {
		return &usageError{"--user " + w.user + ": want UID or UID:GID, in numbers of the container (names aren't looked up)"}
	}
	w.spec.Process.User = specs.User{UID: uint32(u), GID: uint32(g)}
	return nil
}

// command takes the program: the words after the flags, else the bundle's.
func (w *words) command(args []string) error {
	if len(args) > 0 {
		w.spec.Process.Args = args
	}
	if len(w.spec.Process.Args) == 0 && w.factsSave == "" {
		return &usageError{w.verb + ": no program was named: wolffia " + w.verb + " [flags] [--] CMD [ARG…]\n  for example: wolffia " + w.verb + " -- sh"}
	}
	return nil
}
