package migrate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
)

// object is an object of one side.
type object struct {
	key         string // of the store
	value       []byte // as servers read it: the same on both sides
	mod, create int64
	written     time.Time // when it was written last
	err         error     // it cannot be read or moved; value is nil then
}

func (o *object) equal(other *object) bool { return bytes.Equal(o.value, other.value) }

// pages are all objects of one side in order: definitions first, because they say how others are stored, then all
// others by their keys. A page is valid until the next one.
type pages = iter.Seq2[[]object, error]

// definitions is the resource that comes first.
var definitions = kinds.Definitions().String() //nolint:gochecknoglobals // a constant

// before orders keys as pages do.
func before(a, b string) int {
	first := func(key string) int {
		if store.ResourceOf(key) == definitions {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a, b))
}

// converted makes objects of what was read, on all processors.
func converted[T any](from []T, convert func(T) object) []object {
	made := make([]object, len(from))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(from)) {
		wg.Go(func() { // it is waited for below
			for i := next.Add(1) - 1; int(i) < len(from); i = next.Add(1) - 1 {
				made[i] = convert(from[i])
			}
		})
	}
	wg.Wait()
	return made
}

// cursor walks over the objects of one side.
type cursor struct {
	next func() ([]object, error, bool)
	page []object
}

// at returns the next object, nil at the end.
func (c *cursor) at() (*object, error) {
	for len(c.page) == 0 {
		page, err, more := c.next()
		if err != nil || !more {
			return nil, err
		}
		c.page = page
	}
	return &c.page[0], nil
}

// join calls visit with all objects of two sides in order: with both where they have the same key, otherwise the
// other one is nil.
func join(a, b pages, visit func(a, b *object) error) error {
	nextA, stopA := iter.Pull2(a)
	defer stopA()
	nextB, stopB := iter.Pull2(b)
	defer stopB()
	of, other := cursor{next: nextA}, cursor{next: nextB}
	for {
		x, err := of.at()
		if err != nil {
			return err
		}
		y, err := other.at()
		if err != nil {
			return err
		}
		var order int
		switch {
		case x == nil && y == nil:
			return nil
		case x == nil:
			order = 1
		case y == nil:
			order = -1
		default:
			order = before(x.key, y.key)
		}
		if order > 0 {
			x = nil
		} else if order < 0 {
			y = nil
		}
		if err := visit(x, y); err != nil {
			return err
		}
		if x != nil {
			of.page = of.page[1:]
		}
		if y != nil {
			other.page = other.page[1:]
		}
	}
}

// Digest is the SHA-256 of the keys and values of all objects of one side, in order. It does not have
// resourceVersions.
type Digest [sha256.Size]byte

// String returns it in hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// digest computes a Digest.
type digest struct{ hash hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

func (d digest) add(o *object) {
	var sizes [16]byte
	binary.LittleEndian.PutUint64(sizes[:], uint64(len(o.key)))
	binary.LittleEndian.PutUint64(sizes[8:], uint64(len(o.value)))
	for _, part := range [][]byte{sizes[:], []byte(o.key), o.value} {
		_, _ = d.hash.Write(part) // it never fails
	}
}

func (d digest) sum() (sum Digest) {
	copy(sum[:], d.hash.Sum(nil))
	return sum
}

// DifferenceError says that the target does not have what the source has.
type DifferenceError struct {
	Key            string // the first one, in the order of the store
	Found          string
	Source, Target Digest
}

// Error says what differs.
func (e *DifferenceError) Error() string {
	return fmt.Sprintf("the two sides differ: %s %s; the digest of the source is %s, that of the target %s",
		e.Key, e.Found, e.Source, e.Target)
}

// compare reads both sides to their ends.
func (m *mover) compare(source, target pages, done *Result, of int64) error {
	from, to := newDigest(), newDigest()
	count := counter{report: m.Progress, step: Comparing, of: of}
	var differ *DifferenceError
	err := join(source, target, func(s, t *object) error {
		found := ""
		switch {
		case s == nil:
			found = "is only in the target"
		case s.err != nil:
			return s.err
		case t == nil && m.expired(s):
			done.Expired++
			return nil
		case t == nil:
			found = "is only in the source"
		case t.err != nil:
			return t.err
		case !s.equal(t):
			found = "is another object, or in another form"
		}
		key := ""
		if s != nil {
			key = s.key
			from.add(s)
			done.Objects++
			count.add()
		}
		if t != nil {
			key = t.key
			to.add(t)
		}
		if found != "" && differ == nil {
			differ = &DifferenceError{Key: key, Found: found}
		}
		return nil
	})
	if err != nil {
		return err
	}
	done.Source, done.Target = from.sum(), to.sum()
	if differ != nil {
		differ.Source, differ.Target = done.Source, done.Target
		return differ
	}
	return nil
}

// counter reports the progress of one step.
type counter struct {
	report func(step Step, objects, of int64)
	step   Step
	of     int64
	done   int64
}

// reportEvery is after how many objects progress is reported.
const reportEvery = 256

func (c *counter) add() {
	if c.done++; c.done%reportEvery == 0 || c.done == c.of {
		c.report(c.step, c.done, c.of)
	}
}

// each calls visit with all objects of one side.
func each(ctx context.Context, from pages, visit func(*object) error) error {
	for page, err := range from {
		if err != nil {
			return err
		}
		for i := range page {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := visit(&page[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
