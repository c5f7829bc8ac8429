package watchcache

import (
	"iter"
	"slices"

	"github.com/gapless-io/gapless/kube"
)

// window is the part of a resource's log that is in memory: all entries above
// gone, in chunks. It is a value; append, trim and compact return a new one and
// leave the old one as it was, so that readers need no lock.
type window struct {
	// gone is the last change that memory does not hold. A reader that has
	// considered everything up to it finds all the rest here, however long ago it
	// was: an idle resource does not expire (ARCHITECTURE.md invariant 8).
	gone  kube.ResourceVersion
	full  []chunk // oldest first; never changed in place
	last  chunk   // grows in place, behind what older windows see of it
	count int
	bytes int64
}

// chunk is a run of entries. Whole chunks are dropped when the window is too
// large, so that its memory is released.
type chunk struct {
	entries []*Entry
	bytes   int64
}

func (c chunk) newest() kube.ResourceVersion { return c.entries[len(c.entries)-1].RV }

// bounds limit a window; see Config.
type bounds struct {
	entries int
	bytes   int64
}

// chunksPerWindow is how finely a window is trimmed: a chunk is at most this part
// of the bounds.
const chunksPerWindow = 16

// chunkEntries is the largest number of entries in a chunk.
const chunkEntries = 256

// chunkFull reports whether an entry at rv begins another chunk. Those of one revision are in one
// chunk, so that a window never begins between them.
func (b bounds) chunkFull(c chunk, rv kube.ResourceVersion) bool {
	full := len(c.entries) >= min(max(b.entries/chunksPerWindow, 1), chunkEntries) ||
		c.bytes >= b.bytes/chunksPerWindow && len(c.entries) > 0
	return full && c.newest() != rv
}

// append returns the window with e at its end. Only the newest window may be
// appended to.
func (w window) append(e *Entry, b bounds) window {
	if b.chunkFull(w.last, e.RV) {
		full := make([]chunk, len(w.full), len(w.full)+1)
		copy(full, w.full)
		w.full = append(full, w.last)
		w.last = chunk{}
	}
	size := e.size()
	w.last.entries = append(w.last.entries, e)
	w.last.bytes += size
	w.count++
	w.bytes += size
	return w
}

// trim drops the oldest chunks until the bounds are kept, but never the newest.
func (w window) trim(b bounds) window {
	drop := 0
	for drop < len(w.full) && (w.count > b.entries || w.bytes > b.bytes) {
		w = w.without(w.full[drop])
		drop++
	}
	if drop > 0 {
		w.full = slices.Clone(w.full[drop:])
	}
	return w
}

// without accounts for the loss of the oldest chunk.
func (w window) without(c chunk) window {
	w.gone = c.newest()
	w.count -= len(c.entries)
	w.bytes -= c.bytes
	return w
}

// compact drops every entry with RV <= upTo.
func (w window) compact(upTo kube.ResourceVersion) window {
	kept := window{gone: w.gone}
	for e := range w.after(w.gone) {
		if e.RV <= upTo {
			kept.gone = e.RV
			continue
		}
		break
	}
	if kept.gone == w.gone {
		return w
	}
	for i := range len(w.full) + 1 {
		c := w.chunk(i)
		if len(c.entries) == 0 || c.newest() <= kept.gone {
			continue
		}
		c = c.above(kept.gone)
		kept.count += len(c.entries)
		kept.bytes += c.bytes
		if i < len(w.full) {
			kept.full = append(kept.full, c)
		} else {
			kept.last = c
		}
	}
	return kept
}

// above returns the part of c with RV > rv, on its own memory if it is smaller.
func (c chunk) above(rv kube.ResourceVersion) chunk {
	at := c.search(rv)
	if at == 0 {
		return c
	}
	rest := chunk{entries: slices.Clone(c.entries[at:])}
	for _, e := range rest.entries {
		rest.bytes += e.size()
	}
	return rest
}

// search returns the index of the first entry with RV > rv.
func (c chunk) search(rv kube.ResourceVersion) int {
	at, _ := slices.BinarySearchFunc(c.entries, rv, func(e *Entry, rv kube.ResourceVersion) int {
		return upTo(e.RV, rv)
	})
	return at
}

// upTo compares for a search of the first that is greater than rv: -1 if a is not, otherwise 1.
func upTo(a, rv kube.ResourceVersion) int {
	if a <= rv {
		return -1
	}
	return 1
}

// chunk returns the i-th chunk; the last one, which may be empty, for len(full).
func (w window) chunk(i int) chunk {
	if i < len(w.full) {
		return w.full[i]
	}
	return w.last
}

// after yields the entries with RV > rv, oldest first. They are all that there
// are only if rv >= gone.
func (w window) after(rv kube.ResourceVersion) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		first, _ := slices.BinarySearchFunc(w.full, rv, func(c chunk, rv kube.ResourceVersion) int {
			return upTo(c.newest(), rv)
		})
		for i := first; i <= len(w.full); i++ {
			c := w.chunk(i)
			from := 0
			if i == first {
				from = c.search(rv)
			}
			for _, e := range c.entries[from:] {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// countAfter returns how many entries have RV > rv.
func (w window) countAfter(rv kube.ResourceVersion) int {
	n := len(w.last.entries) - w.last.search(rv)
	for _, c := range slices.Backward(w.full) {
		at := c.search(rv)
		if n += len(c.entries) - at; at > 0 {
			break
		}
	}
	return n
}

// newestFirst yields the entries with RV > rv, newest first.
func (w window) newestFirst(rv kube.ResourceVersion) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for i := len(w.full); i >= 0; i-- {
			for _, e := range slices.Backward(w.chunk(i).entries) {
				if e.RV <= rv || !yield(e) {
					return
				}
			}
		}
	}
}
