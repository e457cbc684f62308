package cgroup

import "math"

// The runtime-spec speaks in cgroup v1's terms. What they mean in v2 follows
// what crun and runc do: crun.1.md, "CGROUP v2", and opencontainers/cgroups
// utils.go.

// SharesToWeight turns cpu.shares (2 to 262144, default 1024) into cpu.weight
// (1 to 10000, default 100). Until 2025 crun and runc used the line
// 1+(shares-2)*9999/262142, which made 39 out of the default: a container had
// less than half of what its neighbours had (opencontainers/runc#4772). crun
// since 1.23 and runc since 1.3.2 use this curve, which meets both ends and
// both defaults (containers/crun#1767, opencontainers/runc#4896). So do we. 0 is unset.
func SharesToWeight(shares uint64) uint64 {
	switch {
	case shares == 0:
		return 0
	case shares <= 2:
		return 1
	case shares >= 262144:
		return 10000
	}
	l := math.Log2(float64(shares))
	return uint64(math.Ceil(math.Pow(10, (l*l+125*l)/612-7.0/34)))
}

// WeightToShares is its inverse, for a weight that has to be written in v1.
func WeightToShares(weight uint64) uint64 {
	switch {
	case weight == 0:
		return 0
	case weight <= 1:
		return 2
	case weight >= 10000:
		return 262144
	}
	// l² + 125 l = 612 (log10 weight + 7/34), for l = log2 shares
	c := 612 * (math.Log10(float64(weight)) + 7.0/34)
	l := (-125 + math.Sqrt(125*125+4*c)) / 2
	return uint64(math.Round(math.Exp2(l)))
}

// BlkioToIOWeight turns blkio.weight (10 to 1000) into io.weight (1 to 10000):
// crun's and runc's line. 0 is unset.
func BlkioToIOWeight(weight uint16) uint64 {
	if weight == 0 {
		return 0
	}
	return 1 + (uint64(max(weight, 10))-10)*9999/990
}
