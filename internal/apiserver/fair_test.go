package apiserver_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// slow is a Reader whose lists wait until they may go on.
type slow struct {
	apiserver.Reader

	begun, goOn chan struct{}
}

func (s *slow) List(ctx context.Context, t schema.Target, o kube.ListOptions) (*kube.List, error) {
	if t.Resource.Plural != "configmaps" {
		return s.Reader.List(ctx, t, o)
	}
	s.begun <- struct{}{}
	<-s.goOn
	return s.Reader.List(ctx, t, o)
}

// byHeader identifies callers by a header.
type byHeader struct{}

func (byHeader) Authenticate(r *http.Request) (user.Info, error) {
	return &user.DefaultInfo{Name: r.Header.Get("X-Name"), Groups: []string{"system:masters"}}, nil
}

// While lists have taken all places, leases are served, and /metrics says who waits.
func TestLeasesHavePlacesOfTheirOwn(t *testing.T) {
	held := &slow{begun: make(chan struct{}, 8), goOn: make(chan struct{})}
	d := openServer(t, func(c *apiserver.Config) {
		held.Reader = c.Reader
		c.Reader, c.Authenticator = held, byHeader{}
		c.Limits = limit.Requests{Reading: 4, Writing: 1, Wait: 1} // 1 ns: not at all
	})
	ended := make(chan int, 3)
	for _, name := range []string{"a", "b", "c"} {
		go func() { // ends when the lists go on
			ended <- d.by(d.h2, "GET", configMaps, "", "X-Name: "+name).StatusCode
		}()
		<-held.begun
	}
	go func() { ended <- d.by(d.h2, "GET", configMaps, "", "X-Name: d").StatusCode }() // the last place
	<-held.begun
	if a := d.do("GET", "/api/v1/namespaces", "", "X-Name: e"); a.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a list when there is no place: %d %s", a.StatusCode, a.body)
	}
	const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", leases, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"leader"}}`, http.StatusCreated},
		{"GET", leases + "/leader", "", http.StatusOK},
		{"PATCH", leases + "/leader", `{"spec":{"holderIdentity":"e"}}`, http.StatusOK},
		{"GET", leases, "", http.StatusTooManyRequests},
	} {
		content := "Content-Type: application/json"
		if c.method == "PATCH" {
			content = "Content-Type: application/merge-patch+json"
		}
		if a := d.do(c.method, c.path, c.body, content, "X-Name: e"); a.StatusCode != c.want {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, a.StatusCode, a.body, c.want)
		}
	}
	scraped := d.do("GET", "/metrics", "", "X-Name: e").body
	for _, line := range []string{
		`apiserver_flowcontrol_current_executing_seats{priority_level="read"} 4`,
		`apiserver_flowcontrol_nominal_limit_seats{priority_level="lease"} 64`,
		`apiserver_flowcontrol_rejected_requests_total{priority_level="read"} 2`,
	} {
		if !strings.Contains(scraped, line+"\n") {
			t.Errorf("/metrics has no line %s", line)
		}
	}
	close(held.goOn)
	for range 4 {
		if code := <-ended; code != http.StatusOK {
			t.Errorf("a list: %d", code)
		}
	}
}

// Names that come over one connection share: inventing them makes no shares.
func TestNamesOfOneConnectionShare(t *testing.T) {
	l := limit.NewLoad(limit.Requests{Reading: 100, Wait: 1}, limit.NewRefusals())
	took := func(ctx context.Context, prefix string) (got int) {
		for i := range 200 {
			if _, err := l.Take(ctx, l.Reading, fmt.Sprintf("%s%d", prefix, i)); err == nil {
				got++
			}
		}
		return got
	}
	server, client := net.Pipe()
	t.Cleanup(func() { _, _ = server.Close(), client.Close() })
	wrapped := limit.NewListener(one{conn: server}, limit.Bounds{Connections: 9, ConnectionsOfAddress: 9, Anonymous: 9, FaultsPerMinute: 9}, limit.NewRefusals())
	conn, err := wrapped.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if got := took(limit.NewContext(t.Context(), conn), "invented-"); got > 25 {
		t.Errorf("one connection got %d of 100 places by inventing names", got)
	}
	if _, err := l.Take(t.Context(), l.Reading, "other"); err != nil {
		t.Errorf("another user: %v", err)
	}
}

// one is a listener of one connection.
type one struct {
	net.Listener

	conn net.Conn
}

func (o one) Accept() (net.Conn, error) { return o.conn, nil }
