package play_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/differential/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a target that counts what is done to it.
type server struct {
	*httptest.Server
	done []string
}

func (s *server) Target() play.Target {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return play.Target{URL: s.URL, TLS: &tls.Config{RootCAs: roots}, Token: "secret"}
}

func (s *server) note(what string) error {
	s.done = append(s.done, what)
	return nil
}

func (s *server) Compact(context.Context) error { return s.note("compact") }
func (s *server) Forget(context.Context) error  { return s.note("forget") }
func (s *server) Restart(context.Context) error { return s.note("restart") }
func (s *server) Crash(context.Context) error   { return s.note("crash") }

// run plays a text against a handler.
func run(t *testing.T, handler http.HandlerFunc, text string) (*server, play.Transcript) {
	t.Helper()
	s := &server{Server: httptest.NewTLSServer(handler)}
	t.Cleanup(s.Close)
	parsed, err := script.Parse("test", text)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return s, play.Play(t.Context(), s, parsed, map[string]string{"start": "/start"})
}

func TestRequestsMatchTheScript(t *testing.T) {
	s, got := run(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read to the end: %v", err)
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"n":7,"said":"%s %s %s %s %s"}`, r.Method, r.RequestURI,
			strings.Join(r.Header["X-A.b%2fc"], "+"), r.Header.Get("Authorization"), body)
	}, `case one
PUT $start?a=%20b
  X-A.b%2fc: c
  X-A.b%2fc: d
  [1]
capture n .n
compare n .n
& GET /later/${n+1}
restart
crash
compact
forget
GET /$n
compare n .n
GET /$none
GET /not/reached
`)
	var said []string
	for _, r := range got.Results {
		if r.Answer != nil {
			text, err := script.Member(r.Answer.Body, ".said")
			if err != nil {
				t.Errorf("member: %v", err)
			}
			said = append(said, fmt.Sprintf("%d %s", r.Answer.Code, text))
		}
	}
	want := []string{
		"202 PUT /start?a=%20b c+d Bearer secret [1]",
		"202 GET /later/8  Bearer secret ",
		"202 GET /7  Bearer secret ",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("what the server heard (-want +got):\n%s", diff)
	}
	if got.Stopped != "line 15: nothing was captured as none" {
		t.Errorf("it stopped because %q", got.Stopped)
	}
	if diff := cmp.Diff([]string{"restart", "crash", "compact", "forget"}, s.done); diff != "" {
		t.Errorf("what was done to the server (-want +got):\n%s", diff)
	}
	if got.Results[2].Said != "equal to $n" {
		t.Errorf("the comparison said %q", got.Results[2].Said)
	}
}

// events writes lines as they are wanted: one at once, one after a write.
func events(t *testing.T, zip bool) http.HandlerFunc {
	t.Helper()
	written := make(chan struct{})
	var posts atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if posts.Add(1) == 1 {
				close(written)
			}
			return
		}
		line := func(text string) {
			if zip { // a member for each piece, as upstream sends it
				z := gzip.NewWriter(w)
				fmt.Fprintln(z, text)
				if err := z.Flush(); err != nil {
					t.Errorf("flush: %v", err)
				}
				if err := z.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			} else {
				fmt.Fprintln(w, text)
			}
			w.(http.Flusher).Flush() //nolint:forcetypeassert // the server's own can
		}
		if zip {
			w.Header().Set("Content-Encoding", "gzip")
		}
		line("one")
		select {
		case <-written:
			line("two")
		case <-r.Context().Done():
		}
	}
}

func TestStreamsAreReadAsTheyArrive(t *testing.T) {
	for name, zip := range map[string]bool{"plain": false, "zipped": true} {
		t.Run(name, func(t *testing.T) {
			_, got := run(t, events(t, zip), `case one
watch w /w?timeoutSeconds=30
read w 1
POST /x
end w
quiet w 1ms
`)
			var frames []string
			for _, r := range got.Results {
				for _, f := range r.Frames {
					frames = append(frames, fmt.Sprintf("%d %s %v", r.Step.Line, f.Raw, f.Deadline))
				}
			}
			if diff := cmp.Diff([]string{"3 one 30s", "5 two 30s"}, frames); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
			if e := got.Results[3].Ending; e == nil || e.How != "clean" || e.SinceAction > e.SinceOpen {
				t.Errorf("the ending is %+v, want a clean one, after the write", e)
			}
		})
	}
}

func TestRefusedStreamsHaveAnAnswer(t *testing.T) {
	_, got := run(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusTeapot)
	}, `case one
watch w /w
read w 1
socket s /s
end s
close s
`)
	for i := 0; i < len(got.Results); i += 2 {
		if a := got.Results[i].Answer; a != nil && (a.Code != http.StatusTeapot || string(a.Body) != "no\n") {
			t.Errorf("%s got %d %q", got.Results[i].Step.Text, a.Code, a.Body)
		}
	}
	if e := got.Results[1].Ending; e == nil || e.How != "was never open" {
		t.Errorf("reading what was refused says %+v", e)
	}
}
