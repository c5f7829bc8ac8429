package informer_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

// population is how many objects there can be in a scripted server.
const population = 8

// version is one state of one object.
type version struct {
	key   informer.Key
	uid   types.UID
	rv    int
	value int
	bad   bool // cannot be decoded
	raw   []byte
}

// moment is the server's state at one resource version; nil: no such object.
type moment [population]*version

// occurrence is one change: a version, or the last one of an object with the RV of its
// deletion.
type occurrence struct {
	rv      int
	name    int
	deleted bool
	v       *version
}

// script is a server of a few objects that does everything that servers do, also
// what they should not, as its random source says. Its history is known, so that
// every state that a client shows can be compared. It talks in frames, without bytes
// on a wire, because a hundred thousand of them are played.
type script struct {
	several bool // in two namespaces, which are read apart
	oldRV   bool // a deletion is told with the RV of the last state
	bumps   bool // a restored history begins beyond the RVs of the lost one
	shouts  func(string, ...any)

	// mu guards all below.
	mu       sync.Mutex
	rng      *rand.Rand   // for what happens to objects
	epoch    int          // how often the history was replaced by an older one
	first    int          // the RV of the first moment
	moments  [][]moment   // of each epoch, from first on
	log      []occurrence // of this epoch
	floor    int
	uids     int
	versions map[string]*version // by their bytes
	forks    []int               // of each epoch: up to here it is the same as the one before
	boot     int                 // streams of an earlier one are cut
	wake     chan struct{}
	healed   bool
	wildness float64 // how many requests go wrong
}

func newScript(rng *rand.Rand) *script {
	s := &script{
		rng: rng, first: 1000, floor: 1000, moments: [][]moment{{{}}}, forks: []int{0}, versions: map[string]*version{},
		wake: make(chan struct{}), shouts: func(string, ...any) {},
		wildness: []float64{0, 0.2, 0.5, 0.8}[rng.IntN(4)],
	}
	s.several = rng.IntN(8) == 0
	s.oldRV = rng.IntN(10) == 0
	s.bumps = rng.IntN(2) == 0
	return s
}

func (s *script) rvLocked() int { return s.first + len(s.moments[s.epoch]) - 1 }

func (s *script) stateLocked() moment { return s.moments[s.epoch][len(s.moments[s.epoch])-1] }

func (s *script) key(name int) informer.Key {
	k := key("o" + strconv.Itoa(name))
	if s.several && name%2 == 1 {
		k.Namespace = "other"
	}
	return k
}

// versionLocked makes a version and its bytes.
func (s *script) versionLocked(v version) *version {
	value := strconv.Itoa(v.value)
	if v.bad {
		value = `"` + value + `"`
	}
	v.raw = fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d"},"epoch":%d,"value":%s}`,
		v.key.Name, v.key.Namespace, v.uid, v.rv, s.epoch, value)
	s.versions[string(v.raw)] = &v
	return &v
}

// decode is the source's decoder.
func (s *script) decode(raw []byte) (*thing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.versions[string(raw)]
	if v == nil || v.bad {
		return nil, &kube.DecodeError{Offset: -1, Why: "no thing"}
	}
	o := &thing{Value: v.value}
	o.Name, o.Namespace, o.UID, o.ResourceVersion = v.key.Name, v.key.Namespace, v.uid, strconv.Itoa(v.rv)
	return o, nil
}

// nextLocked makes the next moment.
func (s *script) nextLocked(change func(*moment)) {
	now := s.stateLocked()
	change(&now)
	s.moments[s.epoch] = append(s.moments[s.epoch], now)
}

func (s *script) wakeLocked() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// put writes an object; bad ones cannot be decoded.
func (s *script) put(name int, bad bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := version{key: s.key(name), rv: s.rvLocked() + 1, value: s.rng.IntN(100), bad: bad}
	if old := s.stateLocked()[name]; old != nil {
		v.uid = old.uid
	} else {
		s.uids++
		v.uid = types.UID("u" + strconv.Itoa(s.uids))
	}
	made := s.versionLocked(v)
	s.nextLocked(func(m *moment) { m[name] = made })
	s.log = append(s.log, occurrence{rv: v.rv, name: name, v: made})
	s.shouts("put %v %s rv=%d bad=%t", v.key, v.uid, v.rv, bad)
	s.wakeLocked()
}

func (s *script) delete(name int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.stateLocked()[name]
	if old == nil {
		return
	}
	rv := s.rvLocked() + 1
	last := *old
	if !s.oldRV {
		last.rv = rv
	}
	made := s.versionLocked(last)
	s.nextLocked(func(m *moment) { m[name] = nil })
	s.log = append(s.log, occurrence{rv: rv, name: name, deleted: true, v: made})
	s.shouts("delete %v %s rv=%d", old.key, old.uid, rv)
	s.wakeLocked()
}

// tick moves the revision without touching the objects.
func (s *script) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextLocked(func(*moment) {})
	s.wakeLocked()
}

// compact forgets history.
func (s *script) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor = s.rvLocked()
	s.shouts("compact %d", s.floor)
}

// restart cuts all streams.
func (s *script) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boot++
	s.shouts("restart")
	s.wakeLocked()
}

// rewind restarts with an older history, as from a backup. Without bumps RVs come again
// for other states.
func (s *script) rewind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	back := 1 + s.rng.IntN(6)
	old := s.moments[s.epoch]
	if len(old) <= back {
		return
	}
	s.moments = append(s.moments, append([]moment(nil), old[:len(old)-back]...))
	s.epoch++
	fork := s.rvLocked()
	s.forks = append(s.forks, fork)
	for len(s.log) > 0 && s.log[len(s.log)-1].rv > fork {
		s.log = s.log[:len(s.log)-1]
	}
	s.floor = min(s.floor, fork)
	s.boot++
	for s.bumps && s.rvLocked() < s.first+len(old)+10 {
		s.nextLocked(func(*moment) {})
	}
	s.shouts("rewind to %d", fork)
	s.wakeLocked()
}

// sharedLocked is up to where an epoch's history is the present one's.
func (s *script) sharedLocked(epoch int) int {
	rv := s.rvLocked()
	for _, fork := range s.forks[epoch+1:] {
		rv = min(rv, fork)
	}
	return rv
}

func (s *script) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.healed = true
	s.shouts("healed")
}
