//go:build linux

package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/conformance/crash/program"
)

const (
	writesCheck  = "storage-writes"  // of /readyz: whether writes are accepted
	durableCheck = "storage-durable" // of /readyz, /livez and /healthz: whether what was acknowledged is safe
	// turn is how long the server may take to notice a shortage, or its end.
	turn = 30 * time.Second
)

const configMaps = "/api/v1/namespaces/default/configmaps"

// site is a server under a shortage, and what it acknowledged.
type site struct {
	t      *testing.T
	server *program.Server
	c      *program.Client // one connection, made before the shortage
	stream *program.Stream
	acked  []string // names, in order
	n      int
	wrong  bool // an answer was wrong and was reported
}

// newSite starts a server, writes a little, and begins to watch.
func newSite(t *testing.T, cfg program.Config) *site {
	t.Helper()
	cfg.Path, cfg.Dir = built, t.TempDir()
	// the site knows of every write
	cfg.Flags = append(cfg.Flags, "--history-bytes", "8Mi", "--log-level", "warn", "--bootstrap", "none")
	server, err := program.New(cfg)
	if err != nil {
		t.Fatalf("make a program: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server said:\n%s", server.Log(2<<10))
		}
		if err := server.Close(); err != nil {
			t.Errorf("close server: %v", err)
		}
	})
	if err := server.Start(t.Context()); err != nil {
		t.Fatalf("start server: %v", err)
	}
	s := &site{t: t, server: server}
	s.c = s.client(program.HTTP1)
	var answer program.Answer
	if s.stream, answer = s.client(program.HTTP2).Watch(context.WithoutCancel(t.Context()),
		configMaps+"?watch=1&resourceVersion="+s.current()); s.stream == nil {
		t.Fatal(answer)
	}
	t.Cleanup(s.stream.Close)
	for range 20 {
		if a := s.write(); a.Code != http.StatusCreated {
			t.Fatalf("a write before the shortage: %s", a)
		}
	}
	return s
}

// mustBeHealthy checks what the health endpoints say of a server that is well.
func (s *site) mustBeHealthy() {
	s.t.Helper()
	for _, endpoint := range []string{"readyz", "livez", "healthz"} {
		a := s.get("/" + endpoint + "?verbose")
		if want := "[+]" + durableCheck + " ok"; a.Code != http.StatusOK || !bytes.Contains(a.Body, []byte(want)) {
			s.t.Errorf("/%s before the shortage lacks %q: %s", endpoint, want, a)
		}
		if has := bytes.Contains(a.Body, []byte(writesCheck)); has != (endpoint == "readyz") {
			s.t.Errorf("/%s: it has the check %s: %v, want it in /readyz only", endpoint, writesCheck, has)
		}
	}
}

func (s *site) client(p program.Protocol) *program.Client {
	s.t.Helper()
	c, err := s.server.Client(p)
	if err != nil {
		s.t.Fatalf("client server: %v", err)
	}
	s.t.Cleanup(c.Close)
	return c
}

func (s *site) get(path string) program.Answer {
	return s.c.Do(s.t.Context(), http.MethodGet, path, nil)
}

// write creates the next object, of 16 kB, so that segments fill up.
func (s *site) write() program.Answer {
	s.n++
	name := fmt.Sprintf("n%05d", s.n)
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"x":%q}}`,
		name, strings.Repeat("x", 16<<10))
	a := s.c.Do(s.t.Context(), http.MethodPost, configMaps, []byte(body))
	if a.Code == http.StatusCreated {
		s.acked = append(s.acked, name)
	}
	return a
}

// collection is a list of names.
type collection struct {
	Metadata struct{ ResourceVersion string }
	Items    []struct{ Metadata struct{ Name string } }
}

func (s *site) list() collection {
	s.t.Helper()
	a := s.get(configMaps)
	var list collection
	if err := json.Unmarshal(a.Body, &list); err != nil || a.Code != http.StatusOK {
		s.t.Fatalf("list: %s", a)
	}
	return list
}

func (s *site) current() string { return s.list().Metadata.ResourceVersion }

// refused writes until a write is refused, and reports whether one was.
func (s *site) refused(writes int) bool {
	s.t.Helper()
	for range writes {
		if a := s.write(); a.Code != http.StatusCreated {
			s.mustBeRefusal(a)
			return true
		}
	}
	return false
}

// mustBeRefusal checks that a refused write says 503, and why.
func (s *site) mustBeRefusal(a program.Answer) {
	s.t.Helper()
	if status := a.Status(); !s.wrong &&
		(a.Code != http.StatusServiceUnavailable || status.Reason != "ServiceUnavailable" || status.Message == "") {
		s.wrong = true
		s.t.Errorf("a refused write is answered with %s, want 503 ServiceUnavailable and why", a)
	}
}

// mustServe checks what a server still does that refuses writes.
func (s *site) mustServe() {
	s.t.Helper()
	var ready program.Answer
	s.until("readyz says that writes are refused", func() bool {
		if a := s.write(); a.Code != http.StatusCreated {
			s.mustBeRefusal(a)
		}
		ready = s.get("/readyz")
		return ready.Code == http.StatusInternalServerError
	})
	if !bytes.Contains(ready.Body, []byte("[-]"+writesCheck)) || bytes.Contains(ready.Body, []byte("[-]"+durableCheck)) {
		s.t.Errorf("/readyz does not say that %s alone fails: %s", writesCheck, ready)
	}
	for _, path := range []string{"/livez", "/healthz", "/livez/" + durableCheck} {
		if a := s.get(path); a.Code != http.StatusOK {
			s.t.Errorf("%s, of a cause that passes: %s", path, a)
		}
	}
	s.mustHaveAll("during the shortage")
	if a := s.get(configMaps + "/" + s.acked[0]); a.Code != http.StatusOK {
		s.t.Errorf("a GET during the shortage: %s", a)
	}
}

// mustRecover checks that writes succeed again without help.
func (s *site) mustRecover() {
	s.t.Helper()
	begin := time.Now()
	s.until("writes are accepted again", func() bool { return s.write().Code == http.StatusCreated })
	s.t.Logf("writes were accepted %v after the shortage", time.Since(begin).Round(time.Millisecond))
	s.until("readyz is ok again", func() bool { return s.get("/readyz").Code == http.StatusOK })
	for range 100 {
		if a := s.write(); a.Code != http.StatusCreated {
			s.t.Fatalf("a write after the shortage: %s", a)
		}
	}
	s.mustHaveAll("after the shortage")
	s.mustHaveSeenAll()
}

// mustHaveAll compares a LIST with what was acknowledged.
func (s *site) mustHaveAll(when string) {
	s.t.Helper()
	var names []string
	for _, item := range s.list().Items {
		names = append(names, item.Metadata.Name)
	}
	if !slices.Equal(names, s.acked) {
		s.t.Errorf("%s a LIST shows %d objects, %d were acknowledged", when, len(names), len(s.acked))
	}
}

// mustHaveSeenAll compares the watch with what was acknowledged.
func (s *site) mustHaveSeenAll() {
	s.t.Helper()
	limit := time.AfterFunc(turn, s.stream.Close)
	defer limit.Stop()
	for i, name := range s.acked {
		e, err := s.stream.Next()
		var object struct{ Metadata struct{ Name string } }
		if err == nil {
			err = json.Unmarshal(e.Object, &object)
		}
		if err != nil || e.Type != "ADDED" || object.Metadata.Name != name {
			s.t.Fatalf("event %d of the watch is %s %s (%v), want that %s was added", i, e.Type, object.Metadata.Name, err, name)
		}
	}
}

// mustSurviveAKill kills the server, and looks for what it acknowledged.
func (s *site) mustSurviveAKill() {
	s.t.Helper()
	if err := s.server.Kill(); err != nil {
		s.t.Fatalf("kill server: %v", err)
	}
	s.mustRestart()
}

func (s *site) mustRestart() {
	s.t.Helper()
	if err := s.server.Start(s.t.Context()); err != nil {
		s.t.Fatalf("start server: %v", err)
	}
	s.c = s.client(program.HTTP1)
	s.mustHaveAll("after a restart")
	if a := s.write(); a.Code != http.StatusCreated {
		s.t.Errorf("a write after a restart: %s", a)
	}
	if a := s.get("/readyz"); a.Code != http.StatusOK {
		s.t.Errorf("/readyz after a restart: %s", a)
	}
}

func (s *site) until(what string, ok func() bool) {
	s.t.Helper()
	limit := time.Now().Add(turn)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(limit) {
			s.t.Fatalf("waited %v in vain until %s", turn, what)
		}
		<-tick.C
	}
}
