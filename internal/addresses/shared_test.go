package addresses_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/net"

	"github.com/gapless-io/gapless/internal/addresses"
)

// register is the value of a key that changes by compare-and-swap.
type register struct {
	mu       sync.Mutex
	value    []byte
	revision int64
}

func (r *register) shared(t testing.TB, in string) *addresses.Shared {
	t.Helper()
	s := &addresses.Shared{Read: r.read, Write: r.write, Default: net.PortRange{Base: 30000, Size: 2768}}
	if in != "" {
		own, err := net.ParsePortRange(in)
		if err != nil {
			t.Fatalf("parse a range: %v", err)
		}
		s.Range = own
	}
	return s
}

func (r *register) read(context.Context) ([]byte, int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, r.revision, nil
}

func (r *register) write(_ context.Context, value []byte, revision int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if revision != r.revision {
		return addresses.ErrMoved
	}
	r.value, r.revision = value, revision+1
	return nil
}

// TestServersThatShareNodePortsTakeEachOnce.
func TestServersThatShareNodePortsTakeEachOnce(t *testing.T) {
	in := &register{}
	var all []*addresses.SharedPorts
	for range 3 { // of servers with Services of their own, which is what matters least here
		c := open(t, openLog(t), settings{})
		all = append(all, addresses.SharePorts(in.shared(t, "30000-30099"), c.allocator))
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[int]bool{}
	for i := range 99 {
		wg.Go(func() {
			port, err := all[i%len(all)].Next(t.Context())
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[port] {
				t.Errorf("port %d, %v; taken: %v", port, err, seen[port])
			}
			seen[port] = true
		})
	}
	wg.Wait()
	var last int
	for last = 30000; seen[last]; last++ {
		if err := all[0].Allocate(t.Context(), last); err == nil {
			t.Errorf("%d is taken twice", last)
		}
	}
	if err := all[1].Allocate(t.Context(), last); err != nil {
		t.Errorf("take the last one: %v", err)
	}
	if _, err := all[2].Next(t.Context()); err == nil {
		t.Error("there is one more")
	}
	all[0].Free(t.Context(), []int{last, 80})
	if port, err := all[2].Next(t.Context()); port != last || err != nil {
		t.Errorf("the port that was given back: %d, %v", port, err)
	}
}

// TestLeakedNodePortsAreReleased, but not at once: their Service may be in progress.
func TestLeakedNodePortsAreReleased(t *testing.T) {
	c, in := open(t, openLog(t), settings{}), &register{}
	ports := addresses.SharePorts(in.shared(t, ""), c.allocator)
	c.create("a", "{type: NodePort, ports: [{port: 80, nodePort: 30005}]}")
	if err := ports.Allocate(t.Context(), 30001); err != nil {
		t.Fatalf("take a port: %v", err)
	}
	for pass := range addresses.Passes {
		if has, err := ports.Has(t.Context(), 30001); !has || err != nil {
			t.Errorf("before pass %d: taken: %v, %v", pass, has, err)
		}
		if err := ports.Repair(t.Context()); err != nil {
			t.Fatalf("repair: %v", err)
		}
	}
	for port, want := range map[int]bool{30001: false, 30005: true} {
		if has, err := ports.Has(t.Context(), port); has != want || err != nil {
			t.Errorf("%d is taken: %v, %v", port, has, err)
		}
	}
	in.value, in.revision = nil, 0 // as after a restore
	if err := ports.Allocate(t.Context(), 30005); err == nil {
		t.Error("the port of a Service is taken again after what was registered was lost")
	}
}

// TestNodePortsAreInTheRangeThatIsRegistered, unless a server names its own.
func TestNodePortsAreInTheRangeThatIsRegistered(t *testing.T) {
	c, in := open(t, openLog(t), settings{}), &register{}
	if err := addresses.SharePorts(in.shared(t, "20000-20009"), c.allocator).Repair(t.Context()); err != nil {
		t.Fatalf("register: %v", err)
	}
	if port, err := addresses.SharePorts(in.shared(t, ""), c.allocator).Next(t.Context()); err != nil || port/10 != 2000 {
		t.Errorf("a port is %d, %v", port, err)
	}
	other := addresses.SharePorts(in.shared(t, "25000-25009"), c.allocator)
	if _, err := other.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "--service-node-port-range") {
		t.Errorf("a port of another range: %v", err)
	}
	if err := other.Repair(t.Context()); err != nil {
		t.Fatalf("register: %v", err)
	}
	if port, err := other.Next(t.Context()); err != nil || port/10 != 2500 {
		t.Errorf("a port is %d, %v", port, err)
	}
}

// TestANodePortOfAClientThatLeavesIsKnownToBeTaken, so that it is given back.
func TestANodePortOfAClientThatLeavesIsKnownToBeTaken(t *testing.T) {
	c, in := open(t, openLog(t), settings{}), &register{}
	shared := in.shared(t, "")
	ports := addresses.SharePorts(shared, c.allocator)
	if err := ports.Repair(t.Context()); err != nil {
		t.Fatalf("register: %v", err)
	}
	ctx, leave := context.WithCancel(t.Context())
	shared.Write = func(ctx context.Context, value []byte, revision int64) error {
		err := in.write(ctx, value, revision)
		leave()
		return errors.Join(err, ctx.Err())
	}
	if err := ports.Allocate(ctx, 30001); err != nil {
		t.Errorf("a port that was registered: %v", err)
	}
}
