package informer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// thing is the type of the objects in these tests.
type thing struct {
	metav1.TypeMeta   `json:""`
	metav1.ObjectMeta `json:"metadata"`
	Value             int `json:"value"`
}

type (
	fault   = listwatchtest.Fault
	request = listwatchtest.Request
)

// server is a list-watch server of things.
type server struct{ *listwatchtest.Server }

func newServer() *server {
	s := &server{listwatchtest.New()}
	s.Render = func(v listwatchtest.Version) []byte {
		if labels, is := v.Value.(labeled); is {
			return fmt.Appendf(nil,
				`{"metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d","labels":{%s}},"value":1}`,
				v.Key.Name, v.Key.Namespace, v.UID, v.RV, labels)
		}
		return listwatchtest.RenderThing(v)
	}
	return s
}

// labeled is the labels of an object as members of a JSON object.
type labeled string

// putIn writes an object with labels into a namespace.
func (s *server) putIn(namespace, name, labels string) {
	s.PutKey(types.NamespacedName{Namespace: namespace, Name: name}, labeled(labels))
}

// object returns a thing's JSON.
func object(name string, uid, rv int, value any) string {
	return string(listwatchtest.RenderThing(listwatchtest.Version{
		Key: key(name), UID: types.UID(fmt.Sprint("u", uid)), RV: rv, Value: value,
	}))
}

func parse(t testing.TB, object []byte) *thing {
	t.Helper()
	var o thing
	if err := json.Unmarshal(object, &o); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	return &o
}

// state returns all objects by name.
func (s *server) state(t testing.TB) map[string]string {
	t.Helper()
	return stateOf(t, s.Objects())
}

// at returns the server's state at a resource version.
func (s *server) at(t testing.TB, rv string) map[string]string {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(rv, &n); err != nil {
		t.Fatalf("read the numbers: %v", err)
	}
	objects, there := s.ObjectsAt(0, n)
	if !there {
		t.Fatalf("the server never was at %s", rv)
	}
	return stateOf(t, objects)
}

func stateOf(t testing.TB, objects []*listwatchtest.Version) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, v := range objects {
		all[v.Key.Name] = digest(parse(t, v.Raw))
	}
	return all
}

func digest(o *thing) string {
	return fmt.Sprintf("%s rv=%s value=%d", o.UID, o.ResourceVersion, o.Value)
}

func cached(i *informer.Informer[*thing]) map[string]string {
	all := map[string]string{}
	for k, o := range i.All() {
		all[k.Name] = digest(o)
	}
	return all
}

// listWatch is a client of listwatchtest: a Backend except for the type of its streams.
type listWatch[S informer.Stream] interface {
	List(ctx context.Context, o metav1.ListOptions, each func(item []byte) error) (metav1.ListMeta, error)
	Watch(ctx context.Context, o metav1.ListOptions) (S, error)
}

// backend returns c as a Backend.
func backend[S informer.Stream](lw listWatch[S]) informer.Backend { return adapter[S]{lw} }

type adapter[S informer.Stream] struct{ listWatch[S] }

func (a adapter[S]) Watch(ctx context.Context, o metav1.ListOptions) (informer.Stream, error) {
	s, err := a.listWatch.Watch(ctx, o)
	if err != nil {
		return nil, err // and not a Stream around a nil pointer
	}
	return s, nil
}

// backend reads the server over an in-memory transport, for virtual time.
func (s *server) backend() informer.Backend { return backend(listwatchtest.Over(s)) }

func (s *server) source() informer.Source[*thing] {
	return informer.From("things", s.backend(), informer.JSON[*thing]())
}

func (s *server) informer(opts ...informer.Option) *informer.Informer[*thing] {
	return informer.New(s.source(), opts...)
}

func thingsGVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "things"}
}

// overHTTP reads the server over a real socket.
func (s *server) overHTTP(t testing.TB, opts ...informer.Option) *informer.Informer[*thing] {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return informer.New(informer.For[*thing](&rest.Config{Host: srv.URL}, thingsGVR()), opts...)
}

func key(name string) informer.Key { return listwatchtest.Default(name) }

// churn changes a server's objects at random.
func churn(s *server, rng *rand.Rand, ops int) {
	for range ops {
		name := fmt.Sprint("o", rng.IntN(40))
		switch d := rng.IntN(20); {
		case d < 12:
			s.Put(name, rng.IntN(1000))
		case d < 17:
			s.Delete(name)
		case d < 18:
			s.Delete(name)
			s.Put(name, rng.IntN(1000))
		case d < 19:
			s.Tick()
		default:
			s.Compact(0)
		}
		if rng.IntN(3) == 0 {
			after(time.Duration(rng.IntN(10_000)) * time.Millisecond)
		}
		if rng.IntN(50) == 0 {
			after(time.Duration(rng.IntN(10)) * time.Minute)
		}
	}
}

// failures is a rule that returns random faults.
func failures(rng *rand.Rand) func(request) fault {
	return (&listwatchtest.Random{Rand: rng, Rate: 0.9}).Next
}

// seeds returns the number of seeds that a random test runs: n, or a tenth of them with
// -short.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return max(1, n/10)
	}
	return n
}
