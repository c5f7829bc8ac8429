package addresses

import (
	"context"
	"time"
)

// memory is the node ports of a server that has its store for itself: those of the stored Services, and those of writes
// in progress.
type memory struct {
	*state // its mu guards reserved

	in portRange
	// reserved are ports of writes in progress. Those of a write of which nobody knows what became end at a time,
	// long after it has taken effect or failed.
	reserved map[int]time.Time
}

var _ Ports = (*memory)(nil)

// unknownFor is for how long the ports of a write stay reserved that has not ended; it ends by then if the client is
// answered at all.
const unknownFor = 10 * time.Minute

func (m *memory) takenLocked(port int) bool {
	until, is := m.reserved[port]
	if is && time.Now().After(until) {
		delete(m.reserved, port)
		is = false
	}
	return is || m.ports[port] > 0
}

// Allocate implements Ports.
func (m *memory) Allocate(_ context.Context, port int) error {
	if !m.in.has(port) {
		return m.in.outOfRange()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settleLocked()
	if m.takenLocked(port) {
		return errPortsTaken
	}
	m.reserved[port] = time.Now().Add(unknownFor)
	return nil
}

// Next implements Ports.
func (m *memory) Next(context.Context) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settleLocked()
	port, ok := m.in.free(m.takenLocked)
	if !ok {
		return 0, errFull
	}
	m.reserved[port] = time.Now().Add(unknownFor)
	return port, nil
}

// Has implements Ports.
func (m *memory) Has(_ context.Context, port int) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settleLocked()
	return m.in.has(port) && m.takenLocked(port), nil
}

// Undo implements Ports.
func (m *memory) Undo(_ context.Context, ports []int) { m.Done(ports) }

// Done implements Ports. The Service has the ports, or had them: followers have seen it.
func (m *memory) Done(ports []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, port := range ports {
		delete(m.reserved, port)
	}
}

// Doubt implements Ports: a write that was sent has soon taken effect, or never does.
func (m *memory) Doubt(ports []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, port := range ports {
		m.reserved[port] = time.Now().Add(Grace)
	}
}

// Free implements Ports: no Service has them.
func (*memory) Free(context.Context, []int) {}
