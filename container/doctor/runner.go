package doctor

import "context"

// A Runner starts a container as `wolffia run` does with these options, and waits
// for its end. An error is a start that failed.
type Runner func(ctx context.Context, o RunOptions) (Ran, error)

// RunOptions are run's flags, as far as a doctor needs them. The zero value is
// run's defaults.
type RunOptions struct {
	Map    string   // --map; "" is the default
	Memory int64    // --memory, in bytes; 0 is no limit
	Args   []string // the program
}

// Ran is how a container ended.
type Ran struct {
	ExitCode int
	Limit    int64 // memory.max as the kernel gave it back, in bytes; 0 if none was in force
	Peak     int64 // the most memory that its cgroup held, in bytes; 0 if unknown
	OOMKills int   // processes that the kernel killed for it
}
