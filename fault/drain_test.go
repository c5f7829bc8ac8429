package fault_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gapless-io/gapless/fault"
)

// TestADrainEndsWhatRulesHold also of requests that come after it, while the rules stay.
func TestADrainEndsWhatRulesHold(t *testing.T) {
	const both = "ADDED a,ADDED b"
	for _, c := range []struct {
		name, target string
		action       fault.Action
		want         string // of what is sent; "" is an answer that is cut before anything is
	}{
		{"silence", "/api/v1/pods", &fault.Silence{}, ""},
		{"silence in a watch", watchPods, &fault.Silence{}, ""},
		{"delay", "/api/v1/pods", &fault.Delay{For: time.Hour}, "the server answers"},
		{"delay of events", watchPods, &fault.Delay{Event: time.Hour}, both},
		{"throttle", watchPods, &fault.Throttle{BytesPerSecond: 1}, both},
	} {
		for _, h2 := range []bool{false, true} {
			s := serve(t, h2, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.RawQuery != "" {
					events(event("ADDED", "a", "1"), event("ADDED", "b", "2"))(w, r)
					return
				}
				_, _ = io.WriteString(w, "the server answers") // the client may be gone
			}), fault.Rule{Action: c.action})
			for _, when := range []string{"before", "after"} {
				answered := make(chan string, 1)
				go func() { // ends with the answer
					answered <- s.sent(t, c.target)
				}()
				for when == "before" && s.faults.Rules()[0].Acted == 0 {
					<-time.After(time.Millisecond)
				}
				s.handler.Drain()
				select {
				case got := <-answered:
					if got != c.want {
						t.Errorf("%s, h2 %v, %s: got %q, want %q", c.name, h2, when, got, c.want)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("%s, h2 %v, %s: it is still held", c.name, h2, when)
				}
			}
			if all := s.faults.Rules(); len(all) != 1 || all[0].Acted < 2 {
				t.Errorf("%s, h2 %v: the rules are %+v, want one that acted twice", c.name, h2, all)
			}
		}
	}
}

// sent returns what a client receives: the two events of a watch, or an answer.
func (s stand) sent(t *testing.T, target string) string {
	if target == watchPods {
		got, _ := s.lines(t, 2) // it may be cut
		return strings.Join(got, ",")
	}
	resp, err := s.get(t.Context(), t, target)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// TestADrainEndsSilentWebSockets although their handlers have returned.
func TestADrainEndsSilentWebSockets(t *testing.T) {
	s := serve(t, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		_ = ws.Write(r.Context(), websocket.MessageText, []byte(event("ADDED", "a", "1"))) // nobody is to see it
	}), fault.Rule{Action: &fault.Silence{}})
	ws, resp, err := websocket.Dial(t.Context(), s.URL+watchPods, nil)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	if resp.Body != nil {
		defer resp.Body.Close()
	}
	ended := make(chan error, 1)
	go func() { // ends with the connection
		_, _, err := ws.Read(t.Context())
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("the silence ended with %v", err)
	case <-time.After(100 * time.Millisecond): // more would not show more
	}
	s.handler.Drain()
	if err := <-ended; err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the connection ends with %v", err)
	}
	_ = ws.CloseNow() // it was cut
}
