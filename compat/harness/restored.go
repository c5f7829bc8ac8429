package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Restored runs informers that read through the relay while etcd is restored from an older copy: with the
// relay in front of it, while the relay is away, and while they are disconnected and the relay is started
// again. kube-apiserver itself is silent then, for who watches from a resourceVersion that it has not.
func (s *Sides) Restored(t *testing.T, informers ...*Informer) {
	t.Helper()
	c, r, down := s.Cluster, s.Relay, s.Relayed.Proxy
	quiet := func(<-chan struct{}) {}
	kept := ""
	web := s.Relayed.Client.Client(t)
	restore := func() {
		lost := make([]string, len(informers)) // the newest resourceVersions, which are not restored
		for i, inf := range informers {
			lost[i] = inf.writer.newest(t)
		}
		c.Restore(kept)
		for i, inf := range informers {
			expires(t, web, fmt.Sprintf("%s%s?watch=1&resourceVersion=%s", r.URL, inf.Path, lost[i]))
		}
	}
	play(t, c.URL, c.Admin.Client(t), []phase{
		{name: "no failure", writes: 30, faults: quiet, after: func() { kept = c.Copy() }},
		{name: "restored", writes: 250, faults: quiet, restore: restore},
		{name: "restored while the relay is away", writes: 250, faults: quiet, restore: func() {
			r.Stop(t)
			c.Restore(kept)
			r.start(t)
		}},
		{name: "restored while disconnected, relay restarted", writes: 250, faults: quiet, restore: func() {
			down.Refuse()
			down.Cut()
			restore()
			r.Restart(t)
			down.Accept(t)
		}},
		{name: "no failure again", writes: 30, faults: quiet},
	}, informers)
}

// expires waits until a watch gets 410. It begins it anew when it ends otherwise, as clients do.
func expires(t testing.TB, web *http.Client, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 90*time.Second, errors.New("no 410 for 90 s"))
	defer cancel()
	last := ""
	for ctx.Err() == nil {
		code, err := watchOnce(ctx, web, url)
		if err == nil && code == http.StatusGone {
			return
		}
		last = fmt.Sprintf("%d, %v", code, err)
		after(ctx.Done(), 100*time.Millisecond)
	}
	t.Errorf("GET %s: %v; it ended last with %s", url, context.Cause(ctx), last)
}

// watchOnce returns the code with which a watch ends, as its answer or as its last event.
func watchOnce(ctx context.Context, web *http.Client, url string) (code int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := web.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	code = resp.StatusCode
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var event struct {
			Type   string
			Object struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return code, nil // it is no watch
		}
		if event.Type == "ERROR" {
			return event.Object.Code, nil
		}
	}
	return code, nil
}
