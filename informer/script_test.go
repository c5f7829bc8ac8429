package informer_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/kube"
)

// population is the largest number of objects in a scripted server.
const population = 8

// payload is the value of an object of a scripted server.
type payload struct {
	value      int
	unreadable bool
}

// script is a server of a few objects whose random source decides how it answers and
// fails. It keeps its whole history, so that every state of a client can be compared.
// Decoding is a table lookup, because make servers runs a hundred thousand of them.
type script struct {
	*listwatchtest.Server

	several bool    // in two namespaces, each with its own list and watch
	bumps   bool    // a restored history starts after the resource versions of the lost one
	rate    float64 // the fraction of requests that fail
	rng     *rand.Rand

	// mu guards versions.
	mu       sync.Mutex
	versions map[string]listwatchtest.Version // by their bytes
}

func newScript(rng *rand.Rand) *script {
	s := &script{
		Server: listwatchtest.New(), rng: rng, versions: map[string]listwatchtest.Version{},
		rate: []float64{0, 0.2, 0.5, 0.8}[rng.IntN(4)], several: rng.IntN(8) == 0, bumps: rng.IntN(2) == 0,
	}
	s.Render, s.UID = s.render, listwatchtest.SpreadUID
	s.DeletionKeepsRV = rng.IntN(10) == 0
	s.SilentAhead = rng.IntN(2) == 0
	s.RefuseLost = !s.SilentAhead
	return s
}

// render returns an object's bytes, which differ from those of any other version.
func (s *script) render(v listwatchtest.Version) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	value := strconv.Itoa(v.Value.(payload).value)
	if v.Value.(payload).unreadable {
		value = `"` + value + `"`
	}
	raw := fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d"},"n":%d,"value":%s}`,
		v.Key.Name, v.Key.Namespace, v.UID, v.RV, len(s.versions), value)
	s.versions[string(raw)] = v
	return raw
}

// decode is the source's decoder.
func (s *script) decode(raw []byte) (*thing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, found := s.versions[string(raw)]
	c, _ := v.Value.(payload)
	if !found || c.unreadable {
		return nil, &kube.DecodeError{Offset: -1, Why: "no thing"}
	}
	o := &thing{Value: c.value}
	o.Name, o.Namespace, o.UID, o.ResourceVersion = v.Key.Name, v.Key.Namespace, v.UID, strconv.Itoa(v.RV)
	return o, nil
}

func (s *script) key(name int) informer.Key {
	k := key("o" + strconv.Itoa(name))
	if s.several && name%2 == 1 {
		k.Namespace = "other"
	}
	return k
}

// put writes an object.
func (s *script) put(name int, unreadable bool) {
	s.PutKey(s.key(name), payload{s.rng.IntN(100), unreadable})
}

func (s *script) delete(name int) { s.DeleteKey(s.key(name)) }

// rewind restarts with an older history, as from a backup.
func (s *script) rewind() {
	r := listwatchtest.Rewind{Back: 1 + s.rng.IntN(6), Refused: s.rng.IntN(4)}
	if s.bumps {
		r.Beyond = 11
	}
	if s.SilentAhead {
		r.Refused++ // without a refused request, only the events show the replacement
	}
	s.Rewind(r)
}
