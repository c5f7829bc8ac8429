package upstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/upstream"
	"github.com/gapless-io/gapless/internal/wire"
)

// post sends a body that cannot be read a second time, as those of a proxy's clients.
func post(t *testing.T, s *upstream.Server, method string, body io.Reader, size int) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL.String(), io.MultiReader(body))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	r.ContentLength = int64(size)
	if size == 0 {
		r.Body = nil
	}
	resp, err := s.RoundTrip(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	return err
}

// TestWritesSurviveAServerThatSendsClientsAway has one that does so with 2 % of its answers, as
// kube-apiserver with --goaway-chance: by the header Connection, which becomes a GOAWAY.
func TestWritesSurviveAServerThatSendsClientsAway(t *testing.T) {
	var taken sync.Map // how often each write was taken, by its number
	var answers atomic.Int64
	s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if answers.Add(1)%50 == 0 {
			w.Header().Set("Connection", "close")
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client sends it again
		}
		number, _, _ := strings.Cut(string(body), " ")
		if r.Method == http.MethodDelete {
			number = r.Header.Get("X-Number")
		}
		count, _ := taken.LoadOrStore(number, new(atomic.Int64))
		count.(*atomic.Int64).Add(1)
	}), time.Minute)
	const writers, each = 8, 50
	var running sync.WaitGroup
	for writer := range writers {
		running.Go(func() {
			for i := range each {
				number := strconv.Itoa(writer*each + i)
				size := []int{0, 100, 20_000, 300_000}[i%4]
				method := http.MethodPost
				var body io.Reader = http.NoBody
				if size == 0 {
					method = http.MethodDelete
				} else {
					body = io.MultiReader(strings.NewReader(number+" "), strings.NewReader(strings.Repeat("x", size)))
				}
				r, err := http.NewRequestWithContext(t.Context(), method, s.URL.String(), body)
				if err != nil {
					t.Errorf("make a request: %v", err)
					return
				}
				r.Header.Set("X-Number", number)
				resp, err := s.RoundTrip(r)
				if err != nil {
					t.Errorf("write %s of %d bytes: %v", number, size, err)
					continue
				}
				_ = resp.Body.Close()
			}
		})
	}
	running.Wait()
	for i := range writers * each {
		count, _ := taken.Load(strconv.Itoa(i))
		if n, is := count.(*atomic.Int64); !is || n.Load() != 1 {
			t.Errorf("write %d was taken %v times, want once", i, count)
		}
	}
}

// TestWhatWasNotTakenIsSentAgain plays a server that refuses the first request in different ways, before
// or after it has come.
func TestWhatWasNotTakenIsSentAgain(t *testing.T) {
	const tooLong = 4 << 20
	refuse := map[string]func(c *framed, stream uint32){
		"GOAWAY":         func(c *framed, _ uint32) { c.goAway(0, codeNo) },
		"REFUSED_STREAM": func(c *framed, stream uint32) { c.reset(stream, codeRefusedStream) },
	}
	for name, how := range refuse {
		for _, size := range []int{0, 10, 300_000, tooLong} {
			t.Run(fmt.Sprintf("%s, %d bytes", name, size), func(t *testing.T) {
				var refused atomic.Bool
				var got atomic.Pointer[[]byte]
				s := open(t, play(t, func(_ int, c *framed) {
					for {
						stream, body, err := c.request(nil)
						switch {
						case err != nil:
							return
						case refused.CompareAndSwap(false, true):
							how(c, stream)
						default:
							got.Store(&body)
							c.answer(stream)
						}
					}
				}), time.Minute)
				want := bytes.Repeat([]byte("0123456789"), size/10)
				err := post(t, s, http.MethodPut, bytes.NewReader(want), size)
				switch body := got.Load(); {
				case size > 3<<20:
					e, is := errors.AsType[*upstream.UnreachableError](err)
					if !is || e.Sent || !e.Changes || body != nil {
						t.Errorf("%v, want one that says that nothing was carried out", err)
					}
				case err != nil:
					t.Error(err)
				case body == nil || !bytes.Equal(*body, want):
					t.Errorf("another body arrived than the one of %d bytes", size)
				}
			})
		}
	}
}

// TestABodyThatIsStillComingIsSentAgain has a client that is silent in the middle of a body when the server
// sends it away.
func TestABodyThatIsStillComingIsSentAgain(t *testing.T) {
	second := make(chan struct{})
	var got atomic.Pointer[[]byte]
	s := open(t, play(t, func(n int, c *framed) {
		if n == 0 {
			frames := 0
			if _, _, err := c.request(func(uint32) bool { frames++; return frames < 2 }); err == nil {
				c.goAway(0, codeNo)
				_, _, _ = c.request(nil) // ends with the connection
			}
			return
		}
		first := true
		stream, body, err := c.request(func(uint32) bool {
			if first {
				first = false
				close(second)
			}
			return true
		})
		if err == nil {
			got.Store(&body)
			c.answer(stream)
		}
	}), time.Minute)
	from, to := io.Pipe()
	go func() { // ends when the body is read
		_, _ = io.WriteString(to, "first ")
		<-second
		_, _ = io.WriteString(to, "second")
		_ = to.Close()
	}()
	if err := post(t, s, http.MethodPost, from, -1); err != nil {
		t.Fatalf("post: %v", err)
	}
	if body := got.Load(); body == nil || string(*body) != "first second" {
		t.Errorf("%v arrived", body)
	}
}

// TestWhatMayHaveBeenTakenIsNotSentAgain loses connections after the request has come.
func TestWhatMayHaveBeenTakenIsNotSentAgain(t *testing.T) {
	var taken atomic.Int64
	lose := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/before" {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		taken.Add(1)
		panic(http.ErrAbortHandler)
	}
	http1 := serve(t, lose)
	http1.NextProtos = []string{"http/1.1"}
	for name, cfg := range map[string]*rest.Config{
		"HTTP/1.1": http1, "HTTP/2": serve(t, lose),
		"GOAWAY that has taken it": play(t, func(_ int, c *framed) {
			stream, _, err := c.request(nil)
			if err == nil {
				taken.Add(1)
				c.goAway(stream, codeNo)
			}
		}),
	} {
		s := open(t, cfg, time.Minute)
		for _, c := range []struct {
			method  string
			headers []string
			size    int
			changes bool
		}{
			{"POST", nil, 10, true},
			{"DELETE", nil, 0, true},
			// net/http takes these for a promise that it can be repeated; an API server does not know them.
			{"POST", []string{"Idempotency-Key", "1"}, 10, true},
			{"DELETE", []string{"X-Idempotency-Key", "1"}, 0, true},
			{"GET", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 0, true}, // a command that runs
			{"GET", nil, 0, false},
		} {
			if c.method == "GET" && len(c.headers) > 0 && strings.HasPrefix(name, "GOAWAY") {
				continue // it is over HTTP/1.1
			}
			if !strings.HasPrefix(name, "GOAWAY") { // net/http repeats nothing that is the first on its connection
				before, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL.JoinPath("before").String(),
					http.NoBody)
				if err != nil {
					t.Fatalf("make a request: %v", err)
				}
				resp, err := s.RoundTrip(before)
				if err != nil {
					t.Fatalf("round trip: %v", err)
				}
				_, _ = io.Copy(io.Discard, resp.Body) // it is empty
				_ = resp.Body.Close()
			}
			taken.Store(0)
			r, err := http.NewRequestWithContext(t.Context(), c.method, s.URL.String(),
				io.MultiReader(strings.NewReader(strings.Repeat("x", c.size))))
			if err != nil {
				t.Fatalf("make a request: %v", err)
			}
			if r.ContentLength = int64(c.size); c.size == 0 {
				r.Body = nil
			}
			for i := 0; i < len(c.headers); i += 2 {
				r.Header.Set(c.headers[i], c.headers[i+1])
			}
			resp, err := s.RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			e, is := errors.AsType[*upstream.UnreachableError](err)
			if !is || !e.Sent || e.Changes != c.changes || c.changes && taken.Load() != 1 {
				t.Errorf("%s: %s %v: %v; it was taken %d times", name, c.method, c.headers, err, taken.Load())
			}
			if status := wire.StatusOf(upstream.Refusal("relay",
				err)); strings.Contains(status.Message, "may have been carried out") != c.changes {
				t.Errorf("%s: %s: %s", name, c.method, status.Message)
			} else if _, again := wire.RetryAfter(status); again == c.changes {
				t.Errorf("%s: %s: it has a Retry-After: %v", name, c.method, again)
			}
		}
	}
}

// TestTheMarkOfARequestThatCanBeRepeatedArrives: it is hidden from net/http only.
func TestTheMarkOfARequestThatCanBeRepeatedArrives(t *testing.T) {
	cfg := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header["Idempotency-Key"], r.Header["X-Idempotency-Key"])
	})
	for _, protocols := range [][]string{{"http/1.1"}, nil} {
		cfg.NextProtos = protocols
		resp, err := send(t, open(t, cfg, time.Minute), "POST", "Idempotency-Key", "a", "X-Idempotency-Key", "b")
		if err != nil {
			t.Fatalf("send: %v", err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "[a] [b]" {
			t.Errorf("%s, %v", got, err)
		}
		_ = resp.Body.Close()
	}
}

// deaf is a connection that can be closed so that only a write notices it.
type deaf struct {
	net.Conn

	closed atomic.Bool
}

func (c *deaf) Write(p []byte) (int, error) {
	if c.closed.Load() {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// TestAConnectionThatWasClosedWhileIdleLosesNothing: nothing of the request was sent over it.
func TestAConnectionThatWasClosedWhileIdleLosesNothing(t *testing.T) {
	for _, protocols := range [][]string{{"http/1.1"}, nil} {
		var taken atomic.Int64
		cfg := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			taken.Add(1)
		})
		cfg.NextProtos = protocols
		var last atomic.Pointer[deaf]
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			last.Store(&deaf{Conn: conn})
			return last.Load(), err
		}
		s := open(t, cfg, time.Minute)
		for range 5 {
			if err := post(t, s, http.MethodPost, strings.NewReader("0123456789"), 10); err != nil {
				t.Errorf("%v: %v", protocols, err)
			}
			last.Load().closed.Store(true)
		}
		if taken.Load() != 5 {
			t.Errorf("%v: %d writes were taken, want 5", protocols, taken.Load())
		}
	}
}

// TestABodyThatItsClientBreaksOffIsTheClientsError has a body that ends with an error.
func TestABodyThatItsClientBreaksOffIsTheClientsError(t *testing.T) {
	s := open(t, serve(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }), time.Minute)
	broken := errors.New("invalid byte in chunk length")
	err := post(t, s, http.MethodPost, io.MultiReader(strings.NewReader("half"), failing{broken}), -1)
	if e, is := errors.AsType[*upstream.BodyError](err); !is || !errors.Is(e, broken) {
		t.Errorf("%v, want the error of the body", err)
	}
	status := wire.StatusOf(upstream.Refusal("relay", err))
	if status.Code != http.StatusBadRequest || !strings.Contains(status.Message, broken.Error()) {
		t.Errorf("it is answered %d %s", status.Code, status.Message)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
