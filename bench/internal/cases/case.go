// Package cases defines the measurements, runs them against both servers one after the
// other, and prints a comparison.
//
// A [Case] is one piece of work and its [Metric]s, some of which have a goal. A [Sample] is
// what one run of a case measured on one server. A [Scale] says how large the work is. A
// [Bench] runs cases: each against one server and then the other, as often as the scale says.
// A [Report] holds the medians.
package cases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Scale is the size of the work.
type Scale struct {
	Repeats  int           // of a case, on each server
	Objects  int           // in the collections that are listed
	For      time.Duration // how long lists, creates and floods last
	Quiet    time.Duration // how long memory must not move to be settled
	Long     int           // objects of a long list: 20 000
	Longer   int           // and of a longer one: 150 000
	Watchers int           // 1 000
	Forms    int           // 500, that all ask for one form of objects
	Crowd    int           // 5 000
	PerConn  int           // watches on one HTTP/2 connection
	Paced    int           // updates at 5 per second
	Resumes  int           // resumes, and updates that they read
	Listers  int           // clients that list at once
	Hot      int           // most clients that patch one object, or apply

	Held      int           // objects of 2 KB that a relay mirrors: 100 000
	Changes   int           // that its history has: an hour of 50 a second
	Informers int           // that a relay serves while its upstream restarts, and a twentieth of that upstream itself
	Rate      time.Duration // how long changes and lists come at a rate
}

// Full is the scale of the published table, Short that of CI: it shows that
// everything works, not how fast.
func Full() Scale {
	return Scale{
		Repeats: 3, Objects: 10_000, For: 3 * time.Second, Quiet: 2 * time.Second, Long: 20_000, Longer: 150_000, Watchers: 1000,
		Forms: 500, Crowd: 5000,
		PerConn: 100, Paced: 50, Resumes: 1000, Listers: 200, Hot: 64,
		Held: 100_000, Changes: 180_000, Informers: 1000, Rate: 5 * time.Second,
	}
}

// Short is the scale of CI.
func Short() Scale {
	return Scale{
		Repeats: 1, Objects: 300, For: 200 * time.Millisecond, Quiet: 200 * time.Millisecond, Long: 400, Longer: 900,
		Watchers: 40, Forms: 20, Crowd: 100,
		PerConn: 20, Paced: 3, Resumes: 50, Listers: 8, Hot: 8,
		Held: 400, Changes: 300, Informers: 40, Rate: 300 * time.Millisecond,
	}
}

// Metric is one number that a case measures.
type Metric struct {
	Name string
	Unit string
	Goal Goal
}

// Sample is the value of each metric, by its name, and notes for people.
type Sample struct {
	Values map[string]float64 `json:"values"`
	Notes  []string           `json:"notes,omitempty"`
}

// Stage is the state of the servers that a case begins with.
type Stage int

// The stages.
const (
	Nothing    Stage = iota // no server: the case starts its own
	Definition              // the custom resource is defined
	Objects                 // and Scale.Objects exist
	Shards                  // instead, Scale.Crowd objects in as many namespaces
)

// Case is one row, or some rows, of the table.
type Case struct {
	Name    string
	Title   string
	Stage   Stage
	Fresh   bool // each run has a server of its own
	Once    bool // too long to repeat
	Ours    bool // only gapless can do it, or can within minutes
	Relay   bool // measures a relay before the server: each server has to meet the goals
	Etcd    bool // over an etcd, with kube-apiserver as the peer: its own Run starts all servers
	Kinds   bool // with ConfigMaps, and kube-apiserver in the place of the reference server, which has no built-in kinds
	Asked   bool // only where it is selected by its name: CI has no time for it
	Metrics []Metric
	Run     func(ctx context.Context, r *Run) (Sample, error)
}

// Run is one run of a case on one server.
type Run struct {
	*peer.Server
	Program peer.Program
	Relay   peer.Program // gapless, to run relays with
	Scale   Scale
	Nth     int // of the run in the case, for names that must be new
	Case    string
	Shards  []*load.Writer // the writers of the stage of that name

	etcd     peer.Program // to run stores with
	kube     peer.Program // where Case.Etcd
	stock    peer.Program // where Case.Kinds
	store    *peer.Store  // below the server; nil: what it needs is its own
	content  load.Content // of what fill makes; zero: the custom resource
	filled   int          // objects that fill made
	maps     bool         // fillMaps made its objects
	passed   *history     // that passedHistory made
	dir      string       // for further servers
	profiles string       // directory of profiles; empty takes none
}

// unique returns a name that no other run uses.
func (r *Run) unique() string { return fmt.Sprintf("%s-%d", r.Case, r.Nth) }

// used is what a piece of work took.
type used struct {
	cpu    time.Duration // of the server
	client time.Duration // CPU of this process
	wall   time.Duration
	store  time.Duration // CPU of Run.store
	sent   float64       // bytes that Run.store sent
}

// into notes what a unit of work cost the server and the client.
func (u used) into(s Sample, units float64) {
	s.Values["cpu"] = float64(u.cpu.Nanoseconds()) / 1000 / units
	s.Values["client"] = float64(u.client.Nanoseconds()) / 1000 / units
	s.Values["etcd"] = float64(u.store.Nanoseconds()) / 1000 / units
	s.Values["sent"] = u.sent / 1000 / units
}

// measure runs work and says what the server used meanwhile.
func (r *Run) measure(ctx context.Context, work func() error) (used, error) {
	finish := r.profile(ctx, r.Server, "", max(int(r.Scale.For.Seconds()), 1))
	before, err := r.Usage()
	if err != nil {
		return used{}, errors.Join(err, finish())
	}
	beneath, err := r.store.Load(ctx)
	if err != nil {
		return used{}, errors.Join(err, finish())
	}
	own, began := ownCPU(), time.Now()
	err = work()
	u := used{wall: time.Since(began), client: ownCPU() - own}
	after, usage := r.Usage()
	loaded, store := r.store.Load(ctx)
	u.cpu, u.store, u.sent = after.CPU-before.CPU, loaded.CPU-beneath.CPU, loaded.Sent-beneath.Sent
	return u, errors.Join(err, usage, store, finish())
}

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // cannot happen: the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// profile takes a CPU profile of a server, if it offers one, for some seconds.
func (r *Run) profile(ctx context.Context, of *peer.Server, name string, seconds int) func() error {
	if r.profiles == "" || of.Profiles == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	// The returned function waits for it.
	go func() {
		done <- fetch(ctx, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", of.Profiles, seconds),
			filepath.Join(r.profiles, fmt.Sprintf("%s-%d%s.pprof", r.Case, r.Nth, name)))
	}()
	return func() error { return <-done }
}

func fetch(ctx context.Context, url, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s: %s", resp.Status, body)
	}
	return os.WriteFile(path, body, 0o600)
}

// judge turns a verdict into an error of gapless, or into a note about upstream.
func (r *Run) judge(s *Sample, v load.Verdict, behind int) error {
	s.Values["cut"] = float64(v.Cut)
	if behind == 0 && v.Faultless() && v.Cut == 0 {
		return nil
	}
	text := v.String()
	if behind > 0 {
		text += fmt.Sprintf(", %d watches without their last events", behind)
	}
	if r.Name == peer.Gapless {
		return fmt.Errorf("gapless: %s", text)
	}
	s.Notes = append(s.Notes, "upstream: "+text)
	return nil
}

// define makes the custom resource and waits until it is served.
func define(ctx context.Context, t wire.Target) error { return defineIn(ctx, t, load.Group) }

// defineIn is define in a group.
func defineIn(ctx context.Context, t wire.Target, group string) error {
	conn, err := t.Dial(ctx, wire.HTTP1)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Do(wire.Request{
		Method: http.MethodPost, Path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		Body: []byte(load.DefinitionOf(group)),
	}, io.Discard); err != nil {
		return fmt.Errorf("define the custom resource: %w", err)
	}
	return served(ctx, conn, load.Object{Content: load.Payload, Group: group})
}

// served waits until objects like one can be written.
func served(ctx context.Context, conn wire.Conn, like load.Object) error {
	like.Namespace, like.Name = "default", "probe"
	probe := &load.Writer{Object: like, Conn: conn}
	for {
		err := probe.Create()
		if err == nil {
			_, err = conn.Do(wire.Request{Method: http.MethodDelete, Path: probe.Object.Collection() + "/probe"}, io.Discard)
			return err
		}
		if refused, ok := errors.AsType[*wire.StatusError](err); !ok ||
			refused.Status != http.StatusNotFound && refused.Status != http.StatusTooManyRequests {
			return fmt.Errorf("wait until objects can be made: %w", err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// fill creates objects from 16 clients until there are n.
func (r *Run) fill(ctx context.Context, n int) error {
	_, err := r.fillWith(ctx, n, r.content)
	return err
}

// fillWith is fill with objects of one content. It returns the writers of those that it made.
func (r *Run) fillWith(ctx context.Context, n int, content load.Content) ([]*load.Writer, error) {
	all := make([]*load.Writer, max(n-r.filled, 0))
	for i := range all {
		key := r.filled + i
		all[i] = &load.Writer{
			Key:    key % 100_000,
			Object: load.Object{Namespace: "default", Name: fmt.Sprintf("filled-%06d", key), Content: content},
		}
	}
	r.filled += len(all)
	return all, load.Make(ctx, r.Target, 16, all)
}
