package render

import (
	"net/http"
	"strconv"
	"sync"
	"time"
	"weak"

	"github.com/gapless-io/gapless/internal/apiserver/compress"
	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/wire"
)

const (
	// joinedBytes bounds what is kept of lists that are not compressed, also while they are made: they take as much again as
	// their objects.
	joinedBytes = 32 << 20
	// pieceBytes is what a piece takes.
	pieceBytes = int64(compress.PieceBytes)
	// keepJoined is how long after the last use that is: clients that list again and again do so within seconds.
	keepJoined = 10 * time.Second
)

// joined keeps lists in JSON that are not compressed, in pieces as they are written, for who lists the same state again:
// then a list costs what a server of static files needs. Objects lie about in memory, and to look at each is a third of a
// list. Only lists are kept whose versions are known, which are those that were asked for twice.
type joined struct {
	mu sync.Mutex
	// lists are those that are kept, and those that are being made: of many that are asked for at once one is kept.
	lists   map[joinedKey]*joinedList
	bytes   int64 // of all of them, also while they are made
	ticking bool  // expire will be called
}

// joinedKey identifies a list by the versions of its items, which all lists of one state share, and by the form of the items.
type joinedKey struct {
	versions weak.Pointer[uint64]
	form     string
}

// joinedList is a list from its first item on.
type joinedList struct {
	pieces [][]byte // of compress.PieceBytes each but the last, not changed when the list is whole; nil: there was no room
	bytes  int64    // that the pieces have room for
	used   time.Time
	whole  bool // all was written
}

func keyOf(r *Renderer, l *wire.List) joinedKey {
	form := r.zippedForm(r.resource.APIVersion(), r.resource.Kind)
	if r.shape == shapePartial {
		form += " metadata " + r.apiVersion()
	}
	return joinedKey{weak.Make(&l.Versions[0]), form}
}

// get returns the pieces of a list, nil if it is not kept.
func (j *joined) get(key joinedKey) [][]byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lists[key]
	if l == nil || !l.whole {
		return nil
	}
	l.used = time.Now()
	return l.pieces
}

// begin returns a list that the caller makes, and ends by end; nil if it is kept, or being made, already.
func (j *joined) begin(key joinedKey) *joinedList {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lists[key] != nil {
		return nil
	}
	j.dropLocked(func(k joinedKey, l *joinedList) bool { return l.whole && k.versions.Value() == nil })
	if j.lists == nil {
		j.lists = map[joinedKey]*joinedList{}
	}
	l := &joinedList{}
	j.lists[key] = l
	return l
}

// room takes memory for one more piece, and reports whether there is any. If not, the list gives back what it has.
func (j *joined) room(l *joinedList) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.bytes+pieceBytes > joinedBytes {
		j.bytes -= l.bytes
		l.bytes, l.pieces = 0, nil
		return false
	}
	j.bytes += pieceBytes
	l.bytes += pieceBytes
	return true
}

// end ends what begin has begun. It keeps the list if all was written, even one that had no room, without its pieces: so it
// is not tried again by each who asks for it.
func (j *joined) end(l *joinedList, whole bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !whole {
		j.dropLocked(func(_ joinedKey, other *joinedList) bool { return other == l })
		return
	}
	l.used, l.whole = time.Now(), true
	if !j.ticking {
		j.ticking = true
		time.AfterFunc(keepJoined, j.expire)
	}
}

// expire drops what was not used for keepJoined, or is of a state that nobody can list any more. It is called again until
// nothing is left.
func (j *joined) expire() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dropLocked(func(k joinedKey, l *joinedList) bool {
		return l.whole && (k.versions.Value() == nil || time.Since(l.used) >= keepJoined)
	})
	if j.ticking = len(j.lists) > 0; j.ticking {
		time.AfterFunc(keepJoined, j.expire)
	}
}

func (j *joined) dropLocked(gone func(joinedKey, *joinedList) bool) {
	for k, l := range j.lists {
		if gone(k, l) {
			delete(j.lists, k)
			j.bytes -= l.bytes
		}
	}
}

// Bytes returns how much memory the lists take.
func (j *joined) Bytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bytes
}

// joins reports whether a list may be kept: one of objects, or of their metadata, whose bytes are known by their versions.
func (ls *Lists) joins(r *Renderer, l *wire.List) bool {
	return r.shape != shapeTable && r.list && len(l.Versions) > 0 && !l.Past && ls.blocksOf(r, l) != nil
}

// writeJoined answers with a list that is kept, and reports whether it is.
func (ls *Lists) writeJoined(w http.ResponseWriter, r *Renderer, head []byte, l *wire.List) bool {
	if !ls.joins(r, l) {
		return false
	}
	pieces := ls.joined.get(keyOf(r, l))
	if pieces == nil {
		return false
	}
	compress.Varies(w.Header())
	w.Header().Set("Content-Type", media.JSON)
	last := pieces[len(pieces)-1]
	w.Header().Set("Content-Length", strconv.Itoa(len(head)+(len(pieces)-1)*compress.PieceBytes+len(last)))
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(head)
	for _, p := range pieces {
		if err != nil {
			break // the client left
		}
		_, err = w.Write(p)
	}
	return true
}

// keeping returns what write becomes for a list that is to be kept: first its head, which is not kept, since the list's
// resourceVersion is that of all resources. The caller calls ended, with whether all was written.
func (ls *Lists) keeping(r *Renderer, l *wire.List, write func([]byte)) (both func([]byte), ended func(whole bool)) {
	if !ls.joins(r, l) {
		return write, func(bool) {}
	}
	j, key := &ls.joined, keyOf(r, l)
	made := j.begin(key)
	if made == nil {
		return write, func(bool) {}
	}
	begun, fits := false, true
	both = func(p []byte) {
		write(p)
		if begun {
			fits = fits && made.add(j, p)
		}
		begun = true
	}
	return both, func(whole bool) { j.end(made, whole) }
}

// add adds bytes, and reports whether there was room for them.
func (l *joinedList) add(j *joined, p []byte) bool {
	for len(p) > 0 {
		last := len(l.pieces) - 1
		if last < 0 || len(l.pieces[last]) == compress.PieceBytes {
			if !j.room(l) {
				return false
			}
			l.pieces = append(l.pieces, make([]byte, 0, compress.PieceBytes))
			continue
		}
		n := min(len(p), compress.PieceBytes-len(l.pieces[last]))
		l.pieces[last] = append(l.pieces[last], p[:n]...)
		p = p[n:]
	}
	return true
}
