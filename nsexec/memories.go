package nsexec

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// memories keeps a few mappings of finished starts for the next ones: making
// one costs a page fault for each page, and unmapping one interrupts every CPU
// that runs a thread of ours.
type memories struct {
	shared bool // MAP_SHARED, for a child with a copy of our memory; nothing is kept
	mu     sync.Mutex
	idle   [][]byte
}

const (
	minMemory = 64 << 10 // room for a container's start, so that most fit each other
	maxIdle   = 4
)

// get is a mapping of at least size bytes. One that was used before is not
// cleared: load writes every byte that a child reads.
func (m *memories) get(size int) ([]byte, error) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i, mem := range m.idle {
			if len(mem) >= size {
				m.idle = append(m.idle[:i], m.idle[i+1:]...)
				return mem, nil
			}
		}
	}
	size = align(max(size, minMemory), 4096)
	sharing := unix.MAP_PRIVATE
	if m != nil && m.shared {
		sharing = unix.MAP_SHARED
	}
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, sharing|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("nsexec: mmap(%d bytes) for the child's memory: %w", size, err)
	}
	return mem, nil
}

// put takes a mapping back that no child shares any more.
func (m *memories) put(mem []byte) {
	if m != nil && !m.shared {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.idle) < maxIdle {
			m.idle = append(m.idle, mem)
			return
		}
	}
	unix.Munmap(mem)
}
