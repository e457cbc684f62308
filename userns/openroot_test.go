package userns

import "testing"

// Root writes any ids that exist here, and an ordinary user his own: the same tests with root's maps.
func TestRootOpen(t *testing.T) {
	rootOnly(t)
	for name, test := range map[string]func(*testing.T){
		"Open": TestOpen, "Many": TestOpenMany, "Faults": TestOpenFaults, "BadInput": TestOpenBadInput, "Context": TestOpenContext,
		"Pool": TestPool, "PoolIsBounded": TestPoolIsBounded, "Cache": TestCache, "Vanished": TestVanished, "Reaper": TestReaper,
		"Filtered": TestOpenFiltered, "Allocations": TestOpenAllocations,
	} {
		t.Run(name, test)
	}
}
